// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"cmp"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are the dependencies of the connection in the hub part.
type Params struct {
	fx.In

	Manager ctrl.Manager
	Options Options `optional:"true"`
	// Registry has the id of the hub, and the gate.
	Registry registry.Options `optional:"true"`
	// Cluster has the namespace of the ConfigMap.
	Cluster cluster.Settings `optional:"true"`
}

// Module shares the connection of the hub with the apps of all remotes: their modules may ask for a *Connection.
var Module = registry.NewModule("nats", registry.ModuleOptions{
	Description: "Connects the hub to NATS, for modules with entities.",
	Hub:         fx.Options(fx.Provide(connect), registry.Share[*Connection]()),
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{anchorName}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	},
	HubNamespaces: []string{hubv1.DefaultNamespace},
})

func connect(p Params) (*Connection, error) {
	namespace := cmp.Or(p.Cluster.Namespace, hubv1.DefaultNamespace)
	e := Environment{
		HubID: cmp.Or(p.Registry.HubID, "hub"), Logger: p.Manager.GetLogger(),
		AnchorOf: func(name string) bucket.Anchor {
			return Anchor{Client: p.Manager.GetClient(), Reader: p.Manager.GetAPIReader(), Namespace: namespace, Bucket: name}
		},
	}
	if gate := p.Registry.Gate; gate != nil {
		e.Gate = func() error { return gate("") }
	}
	c, err := New(p.Options, e)
	if err != nil {
		return nil, err
	}
	return c, p.Manager.Add(manager.RunnableFunc(c.Run))
}
