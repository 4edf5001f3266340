// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// HubSelection selects the hub's objects for an upstream side.
type HubSelection struct {
	// Labels, Namespaces and Route are those of hubobjects.Selection, and must be equal for all apps, which share one
	// informer.
	Labels     labels.Selector
	Namespaces []string
	Route      hubobjects.Route
	// Keys are the remote's; none with hubobjects.All.
	Keys []string
	// Permissions and Until are those of hubobjects.Selection.
	Permissions []rbac.NamespacedRules
	Until       context.Context //nolint:containedctx // The life of the views.
}

// OfHub is the hub as an app reaches it. Upstream it has the selected objects; downstream the pair's copies, without
// the selection. The module must declare HubRules: get, list and watch for the kinds; downstream also create, patch
// and delete.
func OfHub(p registry.Remote, s HubSelection) Side {
	return Side{
		hub:    &s,
		access: func() Access { return Access{Client: p.HubClient, Live: p.HubClient} },
		open:   func(w Want) (View, error) { return s.open(p.HubObjects, w) },
	}
}

func (s HubSelection) open(from *hubobjects.Source, w Want) (View, error) {
	selected, keys := hubobjects.Selection{
		Object: w.Object, Labels: s.Labels, Namespaces: s.Namespaces, Route: s.Route, Permissions: s.Permissions, Until: s.Until, Refused: w.Refused,
	}, s.Keys
	if w.Label != "" {
		exists, err := labels.NewRequirement(w.Label, selection.Exists, nil)
		if err != nil {
			return nil, fmt.Errorf("select the copies in the hub: %w", err)
		}
		selected.Labels = labels.NewSelector().Add(*exists)
		selected.Route, keys = hubobjects.ByLabel(w.Label), []string{w.Value}
	}
	objects, err := from.Watch(selected, keys...)
	if err != nil {
		return nil, err
	}
	return hubView{objects}, nil
}

type hubView struct{ objects *hubobjects.Objects }

func (v hubView) Reader() client.Reader { return v.objects }

func (v hubView) Requests(observe Notify) source.TypedSyncingSource[reconcile.Request] {
	return hubobjects.Map(v.objects, func(ctx context.Context, obj client.Object) []reconcile.Request {
		gone, ok := v.objects.Deleted(client.ObjectKeyFromObject(obj))
		return requestsFor(observe(ctx, obj, ok && gone.Seen && gone.Object.GetUID() == obj.GetUID()))
	})
}

func (v hubView) Declare(ctx context.Context, key types.NamespacedName) (context.Context, error) {
	gone, ok := v.objects.Deleted(key)
	if !ok {
		return ctx, nil
	}
	return gone.Declare(ctx)
}

func (s HubSelection) selects(obj client.Object) bool {
	switch {
	case s.Labels != nil && !s.Labels.Matches(labels.Set(obj.GetLabels())):
		return false
	case len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, obj.GetNamespace()):
		return false
	}
	return s.Route == (hubobjects.Route{}) || s.Route.Has(obj, s.Keys...)
}
