// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry"
)

// Run runs a hub until ctx ends, or until the hub cannot continue, which is an error: its manager failed, a module
// asked for the end with fx.Shutdowner, or a replica does not fit the installation. It returns when
// everything that it started has ended, or has had its time to.
func Run(ctx context.Context, o Options) error { return process.Run(ctx, o.process()) }

// GrantHub gives an account of the hub's cluster exactly the permissions that a hub with these options needs there: the
// roles that "hub rbac --in hub" prints, with bindings, and missing namespaces. It returns when the API server applies
// them. It is for tests and for hubs on one machine. A role that exists is an error, because it may grant more. The
// client must act as an administrator, and know the kinds of Kubernetes.
func GrantHub(ctx context.Context, admin client.Client, o Options, account rbacv1.Subject) error {
	modules, err := registry.ConfigureModules(o.Modules, o.Registry.ModuleConfigs)
	if err != nil {
		return err
	}
	roles := roles.Hub{
		Namespace:   cmp.Or(o.CredentialsNamespace, hubv1.DefaultNamespace),
		Impersonate: o.Registry.Impersonate, AppsNamespace: o.Registry.AppsNamespace,
	}
	return roles.Grant(ctx, admin, modules, account)
}
