// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/hubwatch"
)

const hubRequestTimeout = 10 * time.Second // hubRequestTimeout is for requests that are neither a list nor a watch.

// newHubObjects sends no request.
func (r *Registry) newHubObjects(o Options) *hubwatch.Pool {
	apps := r.remotes.Apps
	return hubwatch.NewPool(apps.Root, hubwatch.Options{
		Hub: o.Hub, Transport: r.hubTransport, Mapper: o.HubMapper, Scheme: o.Scheme, Schemas: apps.Schemas,
		UserAgent: "clusterfx/" + apps.Replica, Log: r.log.WithName("hubobjects"), Timeout: hubRequestTimeout,
		StaleAfter: apps.Limits.StaleAfter, StaleTolerance: apps.Limits.StaleTolerance,
		Hidden: o.CredentialsNamespace,
	})
}

func (g appGraph) hubObjectsOf(l *app.Life, m catalog.Choice) *hubobjects.Source {
	declared := declarationAt(m)
	return hubobjects.New(hubobjects.Binding{
		Pool: g.hubObjects, Context: l.Context(), Module: m.Name, Guard: l.Guard(m.Name),
		Scheme: l.Scheme, Mapper: l.HubMapper, Namespaces: declared.namespaces, Hidden: g.credentials,
		Lacks: func(resource schema.GroupResource, namespace string) string {
			of := requestinfo.Info{Group: resource.Group, Resource: resource.Resource, Namespace: namespace}
			return declared.lacks(true, of, "get", "list", "watch")
		},
		AddSource: func(blind func(time.Time) string) { l.AddSource(m.Name, blind) },
		Go:        l.Go, Blocked: l.Blocked,
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
