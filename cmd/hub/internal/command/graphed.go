// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
	"github.com/clusterfx/clusterfx/registry"
)

// graphOfApp returns the graph of the app of a Cluster, or, without a name, of an app with all modules. hub is the graph
// of the hub's App.
func (s *session) graphOfApp(ctx context.Context, name string, hub *graph.Graph) (*graph.Graph, error) {
	title, modules := "app", s.program.Modules
	if name != "" {
		c, err := s.hub.Hub()
		if err != nil {
			return nil, err
		}
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
			return nil, c.Explain(err)
		}
		title = "app " + cluster.Name
		modules = slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool {
			return !slices.ContainsFunc(cluster.Status.Modules, func(one hubv1.ModuleStatus) bool { return one.Name == m.Name() })
		})
	}
	g, err := graph.Of(title, registry.Options{}.AppGraph(modules...))
	if err == nil {
		g.Provided(hub.Needed(sharedType))
	}
	return g, err
}
