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
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// rule returns a rule with verbs for a resource of the core group.
func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{resource}}
}

// limited returns the configuration of a remote whose user has only these permissions.
func limited(t testing.TB, c *fleet.Cluster, name string, rules ...rbacv1.PolicyRule) state.Desired {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: name, Rules: rules})
	must(t, err)
	return configFor(t, credential.Kubeconfig())
}

// allow gives a user of a cluster more permissions, and returns the binding.
func allow(t testing.TB, admin client.Client, user string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRoleBinding {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules}
	must(t, admin.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	must(t, admin.Create(t.Context(), binding))
	return binding
}

// behindProxy returns a proxy of a cluster, and the configuration of a remote behind it with the credential of a kubeconfig.
func behindProxy(t testing.TB, c *fleet.Cluster, kubeconf []byte) (*network.Proxy, state.Desired) {
	t.Helper()
	proxy := fleettest.Proxy(t, c.Server())
	through, err := proxy.Kubeconfig(kubeconf)
	must(t, err)
	return proxy, configFor(t, through)
}

// A module whose permissions the credentials lack waits, and its message names them; the other modules run. When the
// permissions are granted the module starts; when they are revoked it is stopped, and the other modules continue.
// Promise: a missing permission blocks only the module that needs it.
func TestRules_MissingRightBlocksItsModuleOnly(t *testing.T) {
	t.Parallel()
	c, _ := remote(t, "one")
	config := limited(t, c, "no-secrets", rule("configmaps", "get", "list", "watch", "patch"), rule("namespaces", "get"))
	var count counter
	var seen names
	r := newRegistry(t, func(o *registry.Options) {
		o.Hasten()
		o.Modules = []registry.Module{
			registry.NewModule("counter", registry.ModuleOptions{
				Remote: fx.Invoke(count.setUp),
				Rules:  []rbacv1.PolicyRule{rule("configmaps", "get", "list", "watch", "patch")},
			}),
			registry.NewModule("vault", registry.ModuleOptions{
				Rules: []rbacv1.PolicyRule{rule("secrets", "list", "watch"), {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
				Remote: fx.Invoke(func(p registry.Remote) error {
					return ctrl.NewControllerManagedBy(p.Manager).Named("vault").For(&corev1.Secret{}).Complete(&seen)
				}),
			}),
		}
	})
	spawn(t, r, "a", config)
	waiting := expectModule(t, r, "a", "vault", state.ModuleWaiting, state.ReasonRightsMissing)
	for _, right := range []string{"list secrets", "watch secrets", "get /metrics"} {
		if !strings.Contains(waiting.Message, right) {
			t.Errorf("got no %q in message: %s", right, waiting.Message)
		}
	}
	expectAuthorized(t, r, "a", metav1.ConditionFalse, state.ReasonRightsMissing)
	expectSeenBy(t, c, newConfigMap(t, c), "a")

	admin := clientFor(t, c)
	binding := allow(t, admin, "no-secrets", rule("secrets", "*"), rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	expectModule(t, r, "a", "vault", state.ModuleRunning, state.ReasonRunning)
	expectAuthorized(t, r, "a", metav1.ConditionTrue, state.ReasonAllowed)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "vault-", Namespace: "default"}}
	must(t, admin.Create(t.Context(), secret))
	eventually(t, func() error { return seen.has(secret.Name) })

	must(t, admin.Delete(t.Context(), binding))
	waiting = expectModule(t, r, "a", "vault", state.ModuleWaiting, state.ReasonRightsMissing)
	if !strings.Contains(waiting.Message, "watch secrets") {
		t.Errorf("got no %q in message: %s", "watch secrets", waiting.Message)
	}
	expectModule(t, r, "a", "counter", state.ModuleRunning, state.ReasonRunning)
	expectSeenBy(t, c, newConfigMap(t, c), "a")
	if info, _ := r.Status("a"); info.Restarts != 0 {
		t.Errorf("got %d restarts, want 0", info.Restarts)
	}
}

// If no module declares permissions, no access review is sent, and the condition Authorized is not set.
func TestRules_NoneDeclared(t *testing.T) {
	t.Parallel()
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	f.set(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") }, f.honest.ServeHTTP)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("reader", registry.ModuleOptions{ // so that there is a preflight
			Select: registry.Selector{Requires: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}},
		})}
	})
	spawn(t, r, "a", config)
	expectModule(t, r, "a", "reader", state.ModuleRunning, state.ReasonRunning)
	if n := f.requests.Load(); n > 0 {
		t.Errorf("got %d access reviews, want 0", n)
	}
	if info, _ := r.Status("a"); info.Authorized != (state.Condition{}) {
		t.Errorf("got Authorized %v, want it empty", info.Authorized)
	}
}

func expectAuthorized(t testing.TB, r *registry.Registry, name registry.ClusterName, status metav1.ConditionStatus, reason string) {
	t.Helper()
	expectStatus(t, r, name, func(info registry.Status) bool {
		return info.Authorized.Status == status && info.Authorized.Reason == reason
	})
}
