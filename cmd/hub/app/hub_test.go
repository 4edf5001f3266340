// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// everything has the dependencies of a hub part that the package comment lists.
type everything struct {
	fx.In

	Registry   *registry.Registry
	Manager    ctrl.Manager
	Client     client.Client
	Reader     client.Reader `name:"api-reader"`
	Connection crcluster.Cluster
	Cache      cache.Cache
	Config     *rest.Config
	Scheme     *runtime.Scheme
	Mapper     meta.RESTMapper
	Events     events.EventRecorder
	Log        logr.Logger
	Metrics    prometheus.Registerer
	Shutdowner fx.Shutdowner
}

// hubModule returns a module with a hub part only.
func hubModule(part fx.Option) registry.Module {
	return registry.NewModule("tester", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: part})
}

func TestRun_RegistersBySecret(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	var values everything
	o := h.options(hubModule(fx.Invoke(func(v everything) { values = v })))
	o.HealthAddress, o.MetricsAddress = fleettest.FreeAddress(t), fleettest.FreeAddress(t)
	p := h.run(o)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)

	eventually(t, func() error { return get(t, o.HealthAddress, "readyz", http.StatusOK) })
	eventually(t, func() error { return get(t, o.HealthAddress, "healthz", http.StatusOK) })
	eventually(t, func() error { return get(t, o.MetricsAddress, "metrics", http.StatusOK) })

	if got := values.Registry.List(); len(got) != 1 || got[0].Name != "edge-1" {
		t.Errorf("the remotes in a hub part are %+v, want edge-1", got)
	}
	if values.Client == nil || values.Reader == nil || values.Config == nil || values.Log.GetSink() == nil {
		t.Errorf("a dependency is missing in %+v", values)
	}
	if err := p.stop(); err != nil {
		t.Errorf("a hub that is stopped returns %v", err)
	}
	if got := values.Registry.List(); len(got) != 0 {
		t.Errorf("the remotes after the end of the hub are %+v, want no remotes", got)
	}
}

func TestRun_HealthyWithoutItsRemotes(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	o := h.options()
	o.HealthAddress = fleettest.FreeAddress(t)
	h.run(o)
	unreachable := strings.ReplaceAll(string(fleettest.Cluster(t, "edge-1").Kubeconfig()),
		fleettest.Cluster(t, "edge-1").Server(), "https://"+fleettest.FreeAddress(t))
	h.register("dead-1", []byte(unreachable))
	h.expectReady("dead-1", metav1.ConditionFalse)
	for _, path := range []string{"healthz", "readyz"} {
		if err := get(t, o.HealthAddress, path, http.StatusOK); err != nil {
			t.Error(err)
		}
	}
}

func TestRun_RefusesToStart(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	edge := fleettest.Cluster(t, "edge-1") // It has no CRD.
	unreachable := &rest.Config{Host: "https://" + fleettest.FreeAddress(t)}
	for name, c := range map[string]struct {
		options app.Options
		want    string
	}{
		"without a Config":      {app.Options{}, "a hub needs the Config of its API server"},
		"without an API server": {app.Options{Config: unreachable, Alone: true}, "connection refused; check --kubeconfig and --context"},
		"without the CRD":       {app.Options{Config: edge.Config(), Alone: true}, "kubectl apply --server-side -k https://github.com/clusterfx/clusterfx/config/crd"},
		"without rights":        {app.Options{Config: anonymous(h.cluster.Config()), Alone: true}, "denies the hub its permissions: check its credentials"},
		"with one module twice": {h.options(hubModule(nil), hubModule(nil)), `"tester" is in the hub twice`},
		"with a module in need": {h.options(hubModule(fx.Invoke(func(*strings.Builder) {}))), "hub_test.go:"},
		"with a remote in need": {h.options(registry.NewModule("needy", registry.ModuleOptions{Remote: fx.Invoke(func(*strings.Builder) {})})), `module "needy": `},
	} {
		t.Run(name, func(t *testing.T) {
			err := app.Run(t.Context(), c.options)
			testkit.ErrorHas(t, err, c.want)
		})
	}
}

func TestRun_AddressInUse(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	first := h.options()
	first.HealthAddress, first.MetricsAddress = fleettest.FreeAddress(t), fleettest.FreeAddress(t)
	h.run(first)
	for _, address := range []string{first.HealthAddress, first.MetricsAddress} {
		eventually(t, func() error {
			connection, err := net.Dial("tcp", address)
			if err == nil {
				err = connection.Close()
			}
			return err
		})
	}
	second, third := h.options(), h.options()
	second.HealthAddress, third.MetricsAddress = first.HealthAddress, first.MetricsAddress
	for _, o := range []app.Options{second, third} {
		testkit.ErrorIs(t, app.Run(t.Context(), o), syscall.EADDRINUSE)
	}
}

func anonymous(c *rest.Config) *rest.Config {
	c.CertData, c.KeyData = nil, nil
	return c
}

// A hub that is stopped before its caches are filled ends, even if they can never be filled.
func TestRun_StopsWhileItWaitsForItsCaches(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	user, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: "no-config-maps", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{hubv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}})
	h.must(err)
	seen := make(chan *registry.Registry, 1)
	o := h.options(hubModule(fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
		seen <- r
		return m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "name",
			func(client.Object) []string { return nil })
	})))
	o.Config = user.Config()
	p := h.run(o)
	remotes := <-seen
	eventually(t, func() error {
		if one := remotes.HubParts()[0]; one.State != state.ModuleRunning {
			return fmt.Errorf("%+v", one) // an index blocks only the readers that use it
		}
		return nil
	})
	if err := p.stop(); err != nil {
		t.Errorf("a hub that is stopped returns %v", err)
	}
}

// A hub works without hub parts that cannot be built, cannot start, or end, and reports their errors.
func TestRun_WorksWithoutAHubPart(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	seen := make(chan *registry.Registry, 1)
	failing := map[string]struct {
		part fx.Option
		says string
	}{
		"panics": {fx.Invoke(func() { panic("at the disco") }), "at the disco"},
		"hook":   {fx.Invoke(func(l fx.Lifecycle) { l.Append(fx.StartHook(func() error { return errors.New("no database") })) }), "no database"},
		"runnable": {fx.Invoke(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("the ledger is full") }))
		}), "the ledger is full"},
		"watches": {fx.Invoke(func(m ctrl.Manager) error { // a kind that the hub's API server does not serve
			absent := &unstructured.Unstructured{}
			absent.SetGroupVersionKind(schema.GroupVersionKind{Group: "absent.example.com", Version: "v1", Kind: "Comet"})
			return ctrl.NewControllerManagedBy(m).Named("comets").For(absent).Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		}), "Comet"},
	}
	modules := []registry.Module{hubModule(fx.Invoke(func(r *registry.Registry) { seen <- r }))}
	for name, one := range failing {
		modules = append(modules, registry.NewModule(name, registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: one.part}))
	}
	o := h.options(modules...)
	o.HealthAddress = fleettest.FreeAddress(t)
	p := h.run(o)
	h.register("edge-1", fleettest.Cluster(t, "edge-1").Kubeconfig())
	h.expectReady("edge-1", metav1.ConditionTrue)
	remotes := <-seen
	eventually(t, func() error {
		for _, one := range remotes.HubParts() {
			want, fails := failing[one.Module]
			if (one.State == state.ModuleRunning) == fails || !strings.Contains(one.Message, want.says) {
				return fmt.Errorf("%+v", one)
			}
		}
		return nil
	})
	eventually(t, func() error { return get(t, o.HealthAddress, "readyz", http.StatusOK) })
	if err := p.stop(); err != nil {
		t.Errorf("a hub that is stopped returns %v", err)
	}
}

func TestRun_EndsWhenAModuleAsksForIt(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for code, want := range map[int]string{0: "", 3: "the hub was asked to end with exit status 3"} {
		t.Run(fmt.Sprintf("with exit code %d", code), func(t *testing.T) {
			err := h.run(h.options(hubModule(fx.Invoke(func(m ctrl.Manager, s fx.Shutdowner) error {
				return m.Add(manager.RunnableFunc(func(context.Context) error { return s.Shutdown(fx.ExitCode(code)) }))
			})))).wait()
			if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// The start hooks of a module run before the runnables of the manager start, and the stop hooks run after they have stopped.
func TestRun_HooksAroundTheManager(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	var order []string
	running := make(chan struct{})
	p := h.run(h.options(hubModule(fx.Invoke(func(l fx.Lifecycle, m ctrl.Manager) error {
		l.Append(fx.StartStopHook(
			func() { order = append(order, "hook started") },
			func() { order = append(order, "hook stopped") },
		))
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			order = append(order, "manager started")
			close(running)
			<-ctx.Done()
			order = append(order, "manager stopped")
			return nil
		}))
	}))))
	testkit.Closed(t, "the manager starts", running)
	must(t, p.stop())
	if got := strings.Join(order, ", "); got != "hook started, manager started, manager stopped, hook stopped" {
		t.Errorf("got %s", got)
	}
}

func fetch(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// get returns an error unless the response has the status.
func get(t *testing.T, address, path string, status int) error {
	t.Helper()
	got, body, err := fetch(t, "http://"+address+"/"+path)
	if err != nil || got != status {
		return fmt.Errorf("/%s: %d: %s: %w", path, got, body, err)
	}
	return nil
}
