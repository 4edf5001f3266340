// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

const (
	// module copies the labelled ConfigMaps and Secrets of a namespace of the hub into a namespace of each remote, which has
	// the name of the remote.
	module = "everywhere"
	// sources is the namespace of the originals, and everywhere their label.
	sources, everywhere = "sources", "example.com/everywhere"
	// replica is the name of the hub in user agents.
	replica = "syncing"
)

// stage is a hub with remotes that share an API server.
type stage struct {
	t           *testing.T
	hub, remote *fleet.Cluster
	etcd        *etcd         // of the hub
	admin       client.Client // of the hub
	below       client.Client // of the remotes
	networks    map[string]*fault.Proxy
	ahead       atomic.Int64 // of the clock of the holds
	registry    atomic.Pointer[registry.Registry]
	stop        func()
}

func newStage(t *testing.T, remotes ...string) *stage {
	t.Helper()
	s := &stage{t: t, etcd: startEtcd(t), networks: map[string]*fault.Proxy{}}
	own, shared := s.etcd.fleet(t, fleet.Options{Audit: true}), fleettest.New(t, fleet.Options{Audit: true})
	var starting sync.WaitGroup
	var errs [2]error
	starting.Go(func() { s.hub, errs[0] = own.Create(t.Context(), "hub") })
	starting.Go(func() { s.remote, errs[1] = shared.Create(t.Context(), "remotes") })
	starting.Wait()
	must(t, errors.Join(errs[:]...))
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), hubv1.AddToScheme(scheme)))
	s.admin, s.below = schemedClient(t, s.hub, scheme), schemedClient(t, s.remote, scheme)
	fleettest.InstallCRDs(t, s.hub.Config())
	namespace(t, s.admin, hubv1.DefaultNamespace)
	namespace(t, s.admin, sources)
	s.start()
	for _, name := range remotes {
		s.register(name)
	}
	for _, name := range remotes {
		s.expectReady(name, metav1.ConditionTrue)
	}
	return s
}

func schemedClient(t *testing.T, c *fleet.Cluster, scheme *runtime.Scheme) client.Client {
	t.Helper()
	made, err := client.New(c.Config(), client.Options{Scheme: scheme})
	must(t, err)
	return made
}

// start runs a hub until stop is called, or the test ends.
func (s *stage) start() {
	s.t.Helper()
	o := app.Options{Config: s.hub.Config(), Log: logr.Discard(), Modules: []registry.Module{copies(), s.module()}}
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	o.Registry.AllowDuplicates, o.Registry.Replica = true, replica
	o.Registry.Now = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := app.Run(ctx, o); err != nil {
			s.t.Errorf("run the hub: %v", err)
		}
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		s.registry.Store(nil)
	})
	s.t.Cleanup(s.stop)
	eventually(s.t, func() error {
		if s.registry.Load() == nil {
			return errors.New("the hub has not started")
		}
		return nil
	})
}

// module returns a module that gives the hub's registry to the test.
func (s *stage) module() registry.Module {
	return registry.NewModule("stage", registry.ModuleOptions{
		Hub: fx.Invoke(func(r *registry.Registry) { s.registry.Store(r) }),
	})
}

// pass moves the clock by more than the time for which deletes, creates and held deletes count.
func (s *stage) pass() { s.ahead.Add(int64(11 * time.Minute)) }

// copies returns the module.
func copies() registry.Module {
	may := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	read, write := []string{"get", "list", "watch"}, []string{"get", "list", "watch", "create", "patch", "delete"}
	return registry.NewModule(module, registry.ModuleOptions{
		Rules: []rbacv1.PolicyRule{may("", "configmaps", write...), may("", "secrets", write...)},
		HubRules: []rbacv1.PolicyRule{
			may("", "configmaps", read...), may("", "secrets", read...), may("events.k8s.io", "events", "create"),
		},
		Remote: fx.Invoke(func(p registry.Remote) error {
			selected := syncer.HubSelection{
				Labels: labels.SelectorFromSet(labels.Set{everywhere: "yes"}), Namespaces: []string{sources}, Route: hubobjects.All(),
			}
			pair, err := syncer.NewPair(syncer.PairOptions{
				Name: "everywhere", Manager: p.Manager, Upstream: syncer.OfHub(p, selected), Downstream: syncer.OfRemote(p),
				Identity: syncer.Identity{Tenant: string(p.Name), TargetNamespace: string(p.Name)},
			})
			return errors.Join(err, copyKind[*corev1.ConfigMap](pair, "configmaps"), copyKind[*corev1.Secret](pair, "secrets"))
		}),
	})
}

func copyKind[T client.Object](p *syncer.Pair, name string) error {
	return syncer.Register(p, &syncer.Copy[T]{Called: name}, syncer.NewMirror[T](p.Identity(), syncer.TranslatorOptions{}), syncer.Options[T]{})
}

// register registers a remote with its own connection and namespace.
func (s *stage) register(name string) {
	s.t.Helper()
	p, err := fault.New(s.remote.Server())
	must(s.t, err)
	s.t.Cleanup(p.Close)
	s.networks[name] = p
	through, err := p.Kubeconfig(s.remote.Kubeconfig())
	must(s.t, err)
	namespace(s.t, s.below, name)
	must(s.t, s.admin.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": through},
	}))
	must(s.t, s.admin.Create(s.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}, Modules: []string{module}, Namespaces: []string{name},
		Probe: hubv1.ProbeSpec{PeriodSeconds: 3, TimeoutSeconds: 3},
	}}))
}

// expectReady waits for the status of the condition Ready.
func (s *stage) expectReady(name string, status metav1.ConditionStatus) {
	s.t.Helper()
	eventually(s.t, func() error {
		var c hubv1.Cluster
		if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
			return err
		}
		for _, one := range c.Status.Conditions {
			if one.Type == hubv1.ConditionReady && one.Status == status && one.ObservedGeneration == c.Generation {
				return nil
			}
		}
		return fmt.Errorf("Cluster %s: %+v", name, c.Status.Conditions)
	})
}
