// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// Change is a change of some Clusters.
type Change struct {
	// Hub is where they are.
	Hub *access.Cluster
	// Names are the names of the Clusters. All of them have to exist.
	Names []string
	// Selector picks Clusters by their labels; All picks every one. They go without Names.
	Selector string
	All      bool
}

var errNobody = errors.New("say which Clusters: by name, with --selector, or with --all")

// SetState gives the Clusters a state, and calls done with the name of each of them, also if it had that state before.
// It continues after a Cluster that could not be changed, and returns all errors.
func (c Change) SetState(ctx context.Context, state hubv1.ClusterState, done func(name string) error) error {
	names, err := c.names(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"state": state}})
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		cluster := &hubv1.Cluster{}
		cluster.Name = name
		if err := c.Hub.Patch(ctx, cluster, client.RawPatch(client.Merge.Type(), data), client.FieldOwner("clusterfx-cli")); err != nil {
			errs = append(errs, c.Hub.Explain(err))
			continue
		}
		errs = append(errs, done(name))
	}
	return errors.Join(errs...)
}

func (c Change) names(ctx context.Context) ([]string, error) {
	chosen := c.Selector != "" || c.All
	switch {
	case len(c.Names) > 0 && chosen:
		return nil, errors.New("names go without --selector and --all")
	case len(c.Names) > 0:
		return c.Names, nil
	case !chosen:
		return nil, errNobody
	}
	selector, err := labels.Parse(c.Selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	var list hubv1.ClusterList
	if err := c.Hub.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, c.Hub.Explain(fmt.Errorf("list Clusters: %w", err))
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no Clusters found for the selector %q", c.Selector)
	}
	return names, nil
}
