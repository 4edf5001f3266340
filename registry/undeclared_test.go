// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

func counting(c *counter, rules ...rbacv1.PolicyRule) registry.Module {
	return registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(c.setUp), Rules: rules})
}

func expectUndeclared(t *testing.T, r *registry.Registry, want ...state.UndeclaredAccess) {
	t.Helper()
	testkit.Equal(t, r.Undeclared(), want, "undeclared")
}

// An informer whose module does not declare watch gets its objects from lists, so that the app becomes Ready. Then the
// app is Stale, and the message names the missing rule of the module.
func TestUndeclared_Watch(t *testing.T) {
	t.Parallel()
	var c counter
	mine := []rbacv1.PolicyRule{rule("configmaps", "get", "list", "patch")}
	r, _ := soonStale(t, counting(&c, mine...))
	spawn(t, r, "edge", limited(t, fleettest.Cluster(t, "one"), "may-not-watch", mine...))
	info := expectApp(t, r, "edge", metav1.ConditionTrue, state.ReasonStale)
	const problem = `odule counter does not declare "watch configmaps" in its Rules`
	expectSays(t, info, "ConfigMap", "M"+problem)
	expectUndeclared(t, r, state.UndeclaredAccess{Module: "counter", Right: "watch configmaps"})
	if got := r.Undeclared()[0].String(); got != "m"+problem {
		t.Errorf("got problem %q", got)
	}
	for what, got := range map[string]state.Problem{"app": info.App.Problem, "module": info.Modules[0].Problem, "entry": r.Undeclared()[0].Problem()} {
		if got.Kind != state.ProblemUndeclaredRule {
			t.Errorf("problem of the %s: got %v, want an undeclared rule", what, got)
		}
	}
}

// An informer without any permission keeps the app from starting, and the message names the missing rules of the module.
func TestUndeclared_ListAndWatch(t *testing.T) {
	t.Parallel()
	var c counter
	r, _ := soonStale(t, c.module())
	must(t, r.Ensure("edge", limited(t, fleettest.Cluster(t, "one"), "may-do-nothing")))
	info := expectState(t, r, "edge", state.StateStarting, state.ReasonForbidden)
	const problem = `module counter does not declare "list and watch configmaps" in its Rules`
	undeclared := state.Problem{Kind: state.ProblemUndeclaredRule}
	one := info.Modules[0]
	if info.Identity.Status != metav1.ConditionUnknown || info.Identity.Reason != state.ReasonForbidden {
		t.Errorf("got identity %+v, want Unknown/Forbidden", info.Identity)
	}
	if info.App.Message != problem || !strings.Contains(one.Message, problem) ||
		info.App.Problem != undeclared || info.Problem != undeclared || one.Problem != undeclared || one.Controllers[0].Problem != undeclared {
		t.Errorf("got %+v, want the undeclared rule in each message and problem", info)
	}
}

// If the remote refuses a permission that the module declares, the message says to grant it in the remote.
func TestUndeclared_DeclaredIsGranted(t *testing.T) {
	t.Parallel()
	var c counter
	r, _ := soonStale(t, counting(&c, rule("configmaps", "get", "list", "watch", "patch")))
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	spawn(t, r, "edge", config)
	f.set(watchesOf(configMaps), refuse(http.StatusForbidden, metav1.StatusReasonForbidden))
	info := expectApp(t, r, "edge", metav1.ConditionTrue, state.ReasonStale)
	expectSays(t, info, "status 403", "grant it in the remote cluster")
	expectUndeclared(t, r)
}

// Requests of a module are compared with its declared rules: the requests of its controllers, of its other code, and of
// its hub part. Requests of the hub's own code need no declaration.
func TestUndeclared_Requests(t *testing.T) {
	t.Parallel()
	create := func(ctx context.Context, c client.Client, kind client.Object) {
		kind.SetNamespace("default")
		kind.SetGenerateName("test-")
		if err := c.Create(ctx, kind); err == nil {
			t.Errorf("a %T was created, want an error", kind)
		}
	}
	var c counter
	sends := registry.NewModule("sends", registry.ModuleOptions{
		Rules: []rbacv1.PolicyRule{rule("configmaps", "list", "watch", "get")},
		Remote: fx.Invoke(func(p registry.Remote) error {
			create(t.Context(), p.Client, &corev1.Secret{})
			return ctrl.NewControllerManagedBy(p.Manager).Named("sends").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
					create(ctx, p.Client, &corev1.ServiceAccount{})
					c.reconciles.Add(1)
					return ctrl.Result{}, nil
				}))
		}),
		Hub: fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
			return watch.ControllerManagedBy(m, r).Named("sends").WatchesRemote(&corev1.Pod{}, watch.Options[client.Object]{}).
				Complete(reconcile.TypedFunc[watch.Request](func(context.Context, watch.Request) (ctrl.Result, error) {
					return ctrl.Result{}, nil
				}))
		}),
	})
	r, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), registry.Options{}, sends.Option())
	must(t, err)
	run()
	one := fleettest.Cluster(t, "one")
	must(t, clientFor(t, one).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Namespace: "default"}}))
	spawn(t, r, "edge", limited(t, one, "may-not-create", rule("configmaps", "list", "watch", "get")))
	must(t, r.WithClient(t.Context(), "edge", func(ctx context.Context, remote client.Client) error {
		create(ctx, remote, &corev1.Service{})
		return nil
	}))
	eventually(t, func() error {
		if all := r.Undeclared(); c.reconciles.Load() == 0 || len(all) < 3 {
			return missing(all)
		}
		return nil
	})
	expectUndeclared(t, r, state.UndeclaredAccess{Module: "sends", Right: "create secrets"},
		state.UndeclaredAccess{Module: "sends", Right: "create serviceaccounts"}, state.UndeclaredAccess{Module: "sends", Right: "list and watch pods"})
}

// A hub part with permission to list but not to watch reconciles the objects of its lists. When its informer is Stale it
// becomes Degraded with reason Stale, and its state names the missing rule.
func TestUndeclared_HubPart(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "hub")
	mine := rule("secrets", "get", "list")
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: "hub-may-not-watch", Rules: []rbacv1.PolicyRule{mine}})
	must(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Namespace: "default"}}
	must(t, clientFor(t, c).Create(t.Context(), secret))
	var seen names
	o := registry.Options{Limits: registry.Limits{StaleAfter: staleAfter}}
	r, run, err := hubAppWith(t, credential.Config(), o, registry.NewModule("lists", registry.ModuleOptions{
		HubRules: []rbacv1.PolicyRule{mine}, Hub: fx.Invoke(func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).Named("lists").For(&corev1.Secret{}).Complete(&seen)
		}),
	}).Option())
	must(t, err)
	run()
	eventually(t, func() error { return seen.has(secret.Name) })
	part := expectPart(t, r, "lists", state.ModuleDegraded,
		`odule lists does not declare "watch secrets" in its HubRules`)
	if part.Reason != state.ReasonStale || part.Problem.Kind != state.ProblemUndeclaredHubRule {
		t.Errorf("got %+v, want Stale with an undeclared rule", part)
	}
	expectUndeclared(t, r, state.UndeclaredAccess{Module: "lists", Right: "watch secrets", InHub: true})
}

// missing is an error with the undeclared accesses found so far.
type missing []state.UndeclaredAccess

func (m missing) Error() string {
	return "so far: " + cmp.Diff([]state.UndeclaredAccess(nil), []state.UndeclaredAccess(m))
}
