// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// marking is a module whose hub part watches ConfigMaps of the hub and creates a Secret for each of them. It declares
// these permissions.
func marking(name string, namespaces []string, declared ...rbacv1.PolicyRule) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{HubRules: declared, HubNamespaces: namespaces, HubRuns: registry.WithRemotes, Hub: fx.Invoke(func(m ctrl.Manager) error {
		mark := func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, m.GetClient().Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name + "-" + r.Name},
			})
		}
		return ctrl.NewControllerManagedBy(m).Named(name).For(&corev1.ConfigMap{}).Complete(reconcile.Func(mark))
	})})
}

func may(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// With DeclaredHubRights, a hub part without declared permissions waits, and a hub part with complete declarations runs.
// A hub part whose declared permission is removed waits with the reason RightsMissing.
func TestDeclaredHubRights(t *testing.T) {
	t.Parallel()
	const place = "marked"
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.DeclaredHubRights(), hubtest.Modules(
		marking("forgets", nil),
		marking("declares", []string{place}, may("configmaps", "list", "watch"), may("secrets", "create")),
	))
	hub.WaitHubPart("forgets", state.ModuleWaiting, state.ReasonForbidden)
	hub.WaitHubPart("declares", state.ModuleRunning, "")
	meta := metav1.ObjectMeta{Namespace: place, Name: "one"}
	hub.Create(&corev1.ConfigMap{ObjectMeta: meta})
	hub.WaitFor(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: "declares-one"}}, func() error { return nil })

	hub.Stop()
	hub.Delete(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: "clusterfx-hub-modules"}})
	hub.Start()
	hub.WaitHubPart("declares", state.ModuleWaiting, state.ReasonRightsMissing)
	hub.WaitHubPart("forgets", state.ModuleWaiting, state.ReasonForbidden)
	hub.Remote("a").WaitReady()
	hub.Remote("a").Deregister() // The hub's own work needs no other permission.
}

// A wait that fails names the request that an API server has refused to a module.
func TestWaitGone_RefusedRequest(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	said := fails(t, func(tb *failing) {
		hub := hubtest.New(tb, hubtest.Remotes("edge"), hubtest.Modules(trespasser(&tries)))
		edge := hub.Remote("edge")
		edge.Create(configMap("refused"))
		hub.Eventually(func() error { // The first error is in the log when it is tried again.
			if tries.Load() < 2 {
				return errors.New("it was not tried twice")
			}
			return nil
		})
		hub.SetPatience(short)
		edge.WaitGone(configMap("refused"))
	})
	expectSaid(t, said, []string{"the last error of the hub: ", "403 Forbidden to DELETE /api/v1/namespaces/default/configmaps/refused"})
}

// trespasser deletes a ConfigMap without the permission, and counts how often it tries.
func trespasser(tries *atomic.Int32) registry.Module {
	return registry.NewModule("trespasser", registry.ModuleOptions{
		Rules: []rbacv1.PolicyRule{may("configmaps", "list", "watch")},
		Remote: fx.Invoke(func(p registry.Remote) error {
			return registry.ControllerManagedBy(p.Manager).Named("trespasser").For(&corev1.ConfigMap{}).Complete(
				reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
					if r.Name != "refused" {
						return ctrl.Result{}, nil
					}
					tries.Add(1)
					return ctrl.Result{}, p.Client.Delete(ctx, configMap(r.Name))
				}))
		}),
	})
}
