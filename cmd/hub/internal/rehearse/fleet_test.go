// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
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
	for _, c := range append(a.remotes, a.hub) {
		events, err := c.AuditEvents(fleet.ByAgent("clusterfx/rehearsal"))
		must(t, err)
		if len(events) == 0 {
			t.Errorf("%s: nothing was asked", c.Name())
		}
		for _, e := range events {
			isReview := strings.HasSuffix(e.Object.Resource, "reviews")
			if e.Response.Code == 429 || e.Writes() && !isReview && !strings.Contains(e.RequestURI, "dryRun=All") {
				t.Errorf("%s: %s", c.Name(), e)
			}
		}
	}
}

// module has one reconcile in the app of each remote.
func module(name string, f func(ctx context.Context, p registry.Remote) error, rules ...rbacv1.PolicyRule) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{Rules: rules, HubRules: hubRules(rules), Remote: fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).Named(name).WithOptions(controller.Options{}).
			WatchesRawSource(watch.InitialRequest(ctrl.Request{NamespacedName: client.ObjectKey{Name: "one"}})).
			Complete(reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, f(ctx, p) }))
	})})
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
