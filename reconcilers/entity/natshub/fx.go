// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"cmp"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are the dependencies of the connection in the hub part.
type Params struct {
	registry.HubPart

	// NATS are the options of the hub. Default: the zero Options.
	NATS Options `optional:"true"`
	// Settings has the namespace of the ConfigMap.
	Settings cluster.Settings `optional:"true"`
}

// Module shares the connection of the hub with the apps of all remotes: their modules may ask for a *Connection.
var Module = registry.NewModule("nats", registry.ModuleOptions{
	Description: "Connects the hub to NATS, for modules with entities.",
	Hub:         fx.Options(fx.Provide(connect), registry.Share[*Connection]()),
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{anchorName}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	},
	HubNamespaces: []string{registry.CredentialsNamespace},
})

func connect(p Params) (*Connection, error) {
	namespace := cmp.Or(p.Settings.Namespace, hubv1.DefaultNamespace)
	e := Environment{
		HubID: p.Options.HubID, Logger: p.Logger,
		AnchorOf: func(name string) bucket.Anchor {
			return Anchor{Client: p.Client, Reader: p.APIReader, Namespace: namespace, Bucket: name}
		},
	}
	if gate := p.Options.Gate; gate != nil {
		e.Gate = func() error { return gate("") }
	}
	c, err := New(p.NATS, e)
	if err != nil {
		return nil, err
	}
	return c, p.Manager.Add(manager.RunnableFunc(c.Run))
}
