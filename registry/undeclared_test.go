// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func counting(c *counter, rules ...rbacv1.PolicyRule) registry.Module {
	return registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(c.setUp), Rules: rules})
}

// An informer whose module does not declare watch gets its objects from lists, so that the app becomes Ready. Then the
// app is Stale, and the message names the missing rule of the module.
func TestUndeclared_Watch(t *testing.T) {
	t.Parallel()
	var c counter
	mine := []rbacv1.PolicyRule{rule("configmaps", "get", "list", "patch")}
	r, _ := soonStale(t, tolerant, counting(&c, mine...))
	spawn(t, r, "edge", limited(t, fleettest.Cluster(t, "one"), "may-not-watch", mine...))
	info := expectStale(t, r, "edge", metav1.ConditionTrue, "ConfigMap", `Module counter does not declare "watch configmaps" in its Rules`)
	for what, got := range map[string]state.Problem{"app": info.App.Problem, "module": info.Modules[0].Problem} {
		if got.Kind != state.ProblemUndeclaredRule {
			t.Errorf("problem of the %s: got %v, want an undeclared rule", what, got)
		}
	}
}

// An informer without any permission keeps the app from starting, and the message names the missing rules of the module.
func TestUndeclared_ListAndWatch(t *testing.T) {
	t.Parallel()
	var c counter
	r, _ := soonStale(t, tolerant, c.module())
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
	r, _ := soonStale(t, tolerant, counting(&c, rule("configmaps", "get", "list", "watch", "patch")))
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	spawn(t, r, "edge", config)
	f.set(watchesOf(configMaps), refuse(http.StatusForbidden, metav1.StatusReasonForbidden))
	expectStale(t, r, "edge", metav1.ConditionTrue, "status 403", "grant it in the remote cluster")
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
		HubRules: []rbacv1.PolicyRule{mine}, HubRuns: registry.WithRemotes, Hub: fx.Invoke(func(m ctrl.Manager) error {
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
}
