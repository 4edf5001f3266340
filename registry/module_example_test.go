// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strconv"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// Nodes counts the Nodes of every remote, in a ConfigMap of the hub.
var Nodes = registry.NewModule("nodes", registry.ModuleOptions{
	Remote: fx.Invoke(CountNodes), // in the app of every remote
	Rules: []rbacv1.PolicyRule{ // what it may do there
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
	},
	HubRules: []rbacv1.PolicyRule{ // and in the hub
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch"}},
	},
})

// CountNodes adds a controller to the app of a remote: Manager and Client are the remote's, HubClient is for the hub.
func CountNodes(p registry.Remote) error {
	return registry.ControllerManagedBy(p.Manager).For(&corev1.Node{}).Complete(
		reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			var nodes corev1.NodeList
			if err := p.Client.List(ctx, &nodes); err != nil {
				return ctrl.Result{}, err
			}
			count := corev1ac.ConfigMap("nodes-"+string(p.Name), "default").
				WithData(map[string]string{"count": strconv.Itoa(len(nodes.Items))})
			return ctrl.Result{}, p.HubClient.Apply(ctx, count, client.FieldOwner("nodes"), client.ForceOwnership)
		}))
}

// A module is a few lines of ordinary controller-runtime code, with the permissions that it needs.
func ExampleNewModule() {
	fmt.Println(Nodes.Name())
	// Output: nodes
}
