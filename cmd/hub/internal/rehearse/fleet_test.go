// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/fx"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/command"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// audited is a hub's cluster and remotes whose API servers log each request. No hub runs.
type audited struct {
	hub     *fleet.Cluster
	remotes []*fleet.Cluster
	client  map[string]client.Client // by name; of the hub: "hub"
}

func newAudited(t *testing.T, names ...string) *audited {
	t.Helper()
	f := fleettest.New(t, fleet.Options{Audit: true})
	a := &audited{client: map[string]client.Client{}}
	for _, name := range append([]string{"hub"}, names...) {
		c, err := f.Create(t.Context(), name)
		must(t, err)
		a.client[name] = fleettest.Client(t, c, hubv1.AddToScheme)
		if name == "hub" {
			a.hub = c
			continue
		}
		a.remotes = append(a.remotes, c)
	}
	fleettest.InstallCRDs(t, a.hub.Config())
	hub := a.client["hub"]
	must(t, hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
	for _, c := range a.remotes {
		meta := metav1.ObjectMeta{Name: c.Name(), Namespace: hubv1.DefaultNamespace}
		must(t, hub.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"kubeconfig": c.Kubeconfig()}}))
		cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: c.Name(), Labels: map[string]string{"name": c.Name()}}}
		cluster.Spec.KubeconfigSecretRef.Name = c.Name()
		must(t, hub.Create(t.Context(), cluster))
	}
	return a
}

// expectNoWrite fails if the rehearsal has sent a request that could change something, or was told to wait.
func (a *audited) expectNoWrite(t *testing.T) {
	t.Helper()
	asked := 0
	for _, c := range append(a.remotes, a.hub) {
		events, err := c.AuditEvents(fleet.ByAgent("clusterfx/rehearsal"))
		must(t, err)
		asked += len(events)
		for _, e := range events {
			isReview := strings.HasSuffix(e.Object.Resource, "reviews")
			if e.Response.Code == 429 || e.Response.Code == 409 || e.Writes() && !isReview && !strings.Contains(e.RequestURI, "dryRun=All") {
				t.Errorf("%s: %s", c.Name(), e)
			}
		}
	}
	if asked < len(a.remotes) {
		t.Error("nothing was asked")
	}
}

// execute runs a command of a hub with modules, as its administrator.
func (a *audited) execute(t *testing.T, modules []registry.Module, args ...string) (code int, out, problems string) {
	t.Helper()
	return execute(t, modules, append(args, "--kubeconfig="+testkit.File(t, "file", a.hub.Kubeconfig()))...)
}

func execute(t *testing.T, modules []registry.Module, args ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Execute(t.Context(), command.Program{
		Args: append([]string{"hub"}, args...), Stdout: &stdout, Stderr: &stderr, Modules: modules, Stock: true,
	})
	return code, stdout.String(), stderr.String()
}

// register makes the accounts of rehearsals, and returns options with them.
func (a *audited) register(t *testing.T, configuration string, modules ...registry.Module) rehearse.Options {
	t.Helper()
	config := "--config=" + testkit.File(t, "file", []byte("apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"+configuration))
	all := [][]string{{"install", "--rehearsal", "--yes", config}}
	for _, c := range a.remotes {
		all = append(all, []string{"register", c.Name(), "--rehearsal", "--yes", config, "--cluster-kubeconfig=" + testkit.File(t, "file", c.Kubeconfig())})
	}
	for _, args := range all {
		code, out, problems := a.execute(t, modules, args...)
		testkit.Equal(t, code, 0, strings.Join(args, " ")+": "+out+problems)
	}
	o := options(as(t, a.hub, hubv1.RehearsalNamespace, roles.RehearsalAccount), modules...)
	o.Trust, o.Hub.CredentialsNamespace = false, hubv1.DefaultNamespace
	eventually(t, func() error { // An API server takes a moment to apply a policy.
		return rehearse.Held(t.Context(), transportOf(t, o.Hub.Config), o.Hub.Config.Host)
	})
	return o
}

func transportOf(t *testing.T, config *rest.Config) http.RoundTripper {
	t.Helper()
	transport, err := rest.TransportFor(config)
	must(t, err)
	return transport
}

// as returns a connection of a ServiceAccount.
func as(t *testing.T, c *fleet.Cluster, namespace, name string) *rest.Config {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.Config())
	must(t, err)
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = token.Status.Token
	return config
}

// module has one reconcile in the app of each remote.
func module(name string, f func(ctx context.Context, p registry.Remote) error, rules ...rbacv1.PolicyRule) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{Rules: rules, HubRules: hubRules(rules), Remote: reconciles(name, f)})
}

func reconciles(name string, f func(ctx context.Context, p registry.Remote) error) fx.Option {
	return fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).Named(name).
			WatchesRawSource(watch.InitialRequest(ctrl.Request{NamespacedName: client.ObjectKey{Name: "one"}})).
			Complete(reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, f(ctx, p) }))
	})
}

// hubRules are those for ConfigMaps.
func hubRules(rules []rbacv1.PolicyRule) (all []rbacv1.PolicyRule) {
	for range rules[:min(len(rules), 1)] {
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}})
	}
	return all
}

// found returns the finding of a class and module about a Cluster.
func found(report *rehearse.Report, class rehearse.Class, module, cluster string) (one rehearse.Finding) {
	for _, f := range report.Findings {
		if f.Class == class && f.Module == module && f.Cluster == cluster {
			return f
		}
	}
	return one
}

// changes returns the changes of a module, a line for each.
func changes(report *rehearse.Report, module string) (lines []string) {
	for _, c := range report.Changes {
		if c.Module != module {
			continue
		}
		line := c.Cluster + ": " + string(c.Action) + " " + c.Object
		for _, f := range c.Fields {
			line += " " + f.Path + "=" + f.From + "->" + f.To
		}
		if c.Note != "" {
			line += " (" + c.Note + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func eachItem(list client.ObjectList, f func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		f(o.(client.Object))
		return nil
	})
}
