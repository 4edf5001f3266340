// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are the dependencies of Setup in the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's.
	Manager ctrl.Manager
	// Config names the server and the zone of the records.
	Config Config
	// Registry has the id of the hub, which is in the mark of each record.
	Registry registry.Options `optional:"true"`
	// Cluster has the credentials namespace. Default: the namespace of the zero value.
	Cluster cluster.Settings `optional:"true"`
}

// Module is the module.
var Module = registry.NewModule(name, registry.ModuleOptions{
	Description: "Gives the API endpoint of every Cluster a record in an external DNS server.",
	Outside:     "records of a DNS server",
	Hub:         fx.Invoke(Setup),
	HubRuns:     registry.Once, // of Clusters, which are objects of the hub
	Config:      registry.ConfigOf(Defaults),
	HubRules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"},
			Verbs: []string{"get", "list", "watch", "patch"},
		},
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters/status"}, Verbs: []string{"patch"}},
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"get", "create", "update", "delete"},
		},
	},
})
