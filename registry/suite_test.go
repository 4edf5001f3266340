// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(6)
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// policy allows the clusters of the tests, which listen on loopback.
var policy = kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// patience is the time that a test waits for an event which should happen within a second or two.
const patience = 5 * time.Minute

// newRegistry returns a registry with the shared hub. The registry is shut down when the test ends.
func newRegistry(t testing.TB, change func(*registry.Options)) *registry.Registry {
	t.Helper()
	hub := fleettest.Cluster(t, "hub").Config()
	o := registry.Options{
		Hub: hub, HubMapper: fleettest.Mapper(t, hub), Scheme: fleettest.Scheme(t), Policy: policy,
		AllowDuplicates: true, // tests share clusters
		Log:             testLog(t),
	}
	if change != nil {
		change(&o)
	}
	r, err := registry.New(o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return r
}

func testLog(t testing.TB) logr.Logger {
	t.Helper()
	if _, ok := t.(*testing.B); ok {
		return logr.Discard()
	}
	return testkit.Log(t)
}

// configFor returns the desired state of a remote with the credentials of a kubeconfig.
func configFor(t testing.TB, kubeconf []byte) state.Desired {
	t.Helper()
	c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": kubeconf}, kubeconfig.Options{}, policy)
	must(t, err)
	return state.Desired{Endpoint: c.Endpoint, Credential: c.Credential}
}

// remote returns a cluster of the shared fleet and the configuration for it.
func remote(t testing.TB, name string) (*fleet.Cluster, state.Desired) {
	t.Helper()
	c := fleettest.Cluster(t, name)
	return c, configFor(t, c.Kubeconfig())
}

func spawn(t testing.TB, r *registry.Registry, name registry.ClusterName, c state.Desired) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, r.Spawn(ctx, name, c))
}

var must, eventually = testkit.Must, testkit.Eventually

func clientFor(t testing.TB, c *fleet.Cluster) client.WithWatch {
	t.Helper()
	return fleettest.Client(t, c)
}

// expectStatus waits until the status of a remote is as a function wants it.
func expectStatus(t testing.TB, r *registry.Registry, name registry.ClusterName, is func(registry.Status) bool) {
	t.Helper()
	eventually(t, func() error {
		if info, _ := r.Status(name); !is(info) {
			return fmt.Errorf("the status of %s is %+v", name, info)
		}
		return nil
	})
}

// expectState waits until the remote is in a state for a reason.
func expectState(t testing.TB, r *registry.Registry, name registry.ClusterName, want state.State, reason string) registry.Status {
	t.Helper()
	var last registry.Status
	eventually(t, func() error {
		info, ok := r.Status(name)
		if last = info; !ok || info.State != want || info.Reason != reason {
			return &stateError{want: want, reason: reason, got: info}
		}
		return nil
	})
	return last
}

type stateError struct {
	want   state.State
	reason string
	got    registry.Status
}

func (e *stateError) Error() string {
	return "want " + string(e.want) + "/" + e.reason + ", got " + string(e.got.State) + "/" + e.got.Reason + ": " + e.got.Message
}

// handing returns a module that hands over what it gets in each app.
func handing(name string) (registry.Module, <-chan registry.Remote) {
	apps := make(chan registry.Remote, 100)
	return registry.NewModule(name, registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) { apps <- p })}), apps
}

// counter is a module that marks ConfigMaps in its remote with an annotation of the remote's name, so that tests see where it works.
type counter struct{ reconciles atomic.Int64 }

func (c *counter) module() registry.Module {
	return registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(c.setUp)})
}

func (c *counter) setUp(p registry.Remote) error {
	return ctrl.NewControllerManagedBy(p.Manager).Named("counter").For(&corev1.ConfigMap{}).
		Complete(&marker{counter: c, name: string(p.Name), remote: p.Client})
}

type marker struct {
	*counter
	name   string
	remote client.Client
}

// seenBy is the annotation with which the counter of the remote named name marks ConfigMaps. Tests share clusters, so
// that several counters may mark the same object.
func seenBy(name string) string { return "seen-by.clusterfx.dev/" + name }

func (m *marker) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	m.reconciles.Add(1)
	var one corev1.ConfigMap
	if err := m.remote.Get(ctx, r.NamespacedName, &one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, wanted := one.Labels["test"]; !wanted || one.Annotations[seenBy(m.name)] != "" {
		return ctrl.Result{}, nil
	}
	before := one.DeepCopy()
	metav1.SetMetaDataAnnotation(&one.ObjectMeta, seenBy(m.name), "yes")
	return ctrl.Result{}, client.IgnoreNotFound(m.remote.Patch(ctx, &one, client.MergeFrom(before)))
}

func newConfigMap(t testing.TB, c *fleet.Cluster) client.ObjectKey {
	t.Helper()
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "test-", Namespace: "default", Labels: map[string]string{"test": "yes"},
	}}
	must(t, clientFor(t, c).Create(t.Context(), one))
	return client.ObjectKeyFromObject(one)
}

// expectSeenBy waits until the counter of the remote named name has marked the ConfigMap.
func expectSeenBy(t testing.TB, c *fleet.Cluster, key client.ObjectKey, name string) {
	t.Helper()
	direct := clientFor(t, c)
	eventually(t, func() error {
		var one corev1.ConfigMap
		if err := direct.Get(t.Context(), key, &one); err != nil {
			return err
		}
		if one.Annotations[seenBy(name)] == "" {
			return fmt.Errorf("not marked by %s, only by %v", name, one.Annotations)
		}
		return nil
	})
}

// everything has all permissions, for a minted user.
var everything = []rbacv1.PolicyRule{
	{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
}

// metric returns the value of one series, 0 if the series does not exist.
func metric(t *testing.T, from prometheus.Gatherer, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.Metric {
			matches := len(one.Label) == len(labels)
			for _, label := range one.Label {
				matches = matches && labels[label.GetName()] == label.GetValue()
			}
			if matches {
				return one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	return 0
}
