// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

const hubRequestTimeout = 10 * time.Second // hubRequestTimeout is for requests that are neither a list nor a watch.

// newHubObjects sends no request.
func (r *Registry) newHubObjects(o Options) *hubobjects.Pool {
	apps := r.remotes.Apps
	return hubobjects.NewPool(apps.Root, hubobjects.Options{
		Hub:   o.Hub,
		Chain: transport.Chain{Base: r.hubTransport, UserAgent: "clusterfx/" + apps.Replica, Timeout: hubRequestTimeout},
		Place: apps.HubPlace, Scheme: o.Scheme, Schemas: apps.Schemas, Log: r.log.WithName("hubobjects"),
		StaleAfter: apps.Limits.StaleAfter, StaleTolerance: apps.Limits.StaleTolerance,
		Hidden: o.CredentialsNamespace,
	})
}

func (g appGraph) hubObjectsOf(l *app.Life, m catalog.Choice) *hubobjects.Source {
	declared, guard := declarationAt(m), l.Guard(m.Name)
	return g.hubObjects.Source(hubobjects.Binding{
		Context: l.Context(), Namespaces: declared.namespaces,
		Refuses: func(by []rbac.NamespacedRules, resource schema.GroupResource, namespace string) error {
			of, granted := requestinfo.Info{Group: resource.Group, Resource: resource.Resource, Namespace: namespace}, declared
			if by != nil {
				granted = declaration{hub: by}
			}
			if permission := granted.lacks(true, of, "get", "list", "watch"); permission != "" {
				return fmt.Errorf("module %s does not declare the permission to %s in the hub; add it to its HubRules, or to those of RulesOf", m.Name, permission)
			}
			return nil
		},
		AddSource: func(blind func(time.Time) string) func() { return l.AddSource(m.Name, blind) },
		Blocked:   l.Blocked,
		Go: func(ctx context.Context, kind, what string, run func()) bool {
			cache.Awaits(ctx, kind, what)
			return l.Go(run)
		},
		Call: func(f func()) {
			if !guard.IsBroken() {
				guard.CallBounded("source of hub objects", f)
			}
		},
	})
}

type noCache struct{} // noCache is for a registry without Options.HubCache.

var errNoCache = errors.New("this registry was made without Options.HubCache; use the manage-client")

func (noCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errNoCache
}

func (noCache) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errNoCache
}
