// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Module is the name of the module.
const Module = "sync"

// Diff is what to look at.
type Diff struct {
	Hub   *access.Cluster
	HubID string
	// Reach connects to the remote of a Cluster, until the function that it returns is called.
	Reach func(context.Context, *hubv1.Cluster) (remote *access.Cluster, end func(), err error)
	Rule  rules.Rule
	// Cluster limits it to one. Default: all that the rule selects.
	Cluster string
}

const parallel, page = 8, 500

// Run returns what the rule would write now. A remote without a response has an error in a Change. Limits of objects and deletes are not
// considered.
func (d *Diff) Run(ctx context.Context) ([]Change, error) {
	var list hubv1.ClusterList
	if err := d.Hub.List(ctx, &list); err != nil {
		return nil, d.Hub.Explain(fmt.Errorf("list Clusters: %w", err))
	}
	clusters := slices.DeleteFunc(list.Items, func(c hubv1.Cluster) bool {
		runs := c.Spec.Modules == nil || slices.Contains(c.Spec.Modules, Module)
		return !runs || !d.Rule.SelectsCluster(c.Labels) || d.Cluster != "" && c.Name != d.Cluster
	})
	if d.Cluster != "" && len(clusters) == 0 {
		return nil, fmt.Errorf("rule %s selects no Cluster %s", d.Rule.Name, d.Cluster)
	}
	results := make([][]Change, len(clusters))
	var asked errgroup.Group
	asked.SetLimit(parallel)
	for i := range clusters {
		asked.Go(func() error {
			one := &comparison{rule: d.Rule, cluster: &clusters[i], at: rules.Place{HubID: d.HubID, Cluster: clusters[i].Name}}
			if err := d.compare(ctx, one); err != nil {
				one.found = append(one.found, Change{Cluster: clusters[i].Name, Err: err})
			}
			results[i] = one.found
			return nil
		})
	}
	_ = asked.Wait() // The results have the errors.
	return slices.Concat(results...), ctx.Err()
}

func (d *Diff) compare(ctx context.Context, one *comparison) error {
	if err := d.Rule.CheckNamespaces(one.cluster.Name); err != nil {
		return err
	}
	remote, end, err := d.Reach(ctx, one.cluster)
	if err != nil {
		return err
	}
	defer end()
	if one.source, err = sideOf(d.Hub); err != nil {
		return err
	}
	if one.target, err = sideOf(remote); err != nil {
		return err
	}
	if d.Rule.From == hubv1.SyncFromRemote {
		one.source, one.target = one.target, one.source
	}
	return one.run(ctx)
}

type side struct {
	*access.Cluster
	all client.Client
}

func sideOf(c *access.Cluster) (*side, error) {
	all, err := client.New(c.Config, client.Options{HTTPClient: c.HTTP})
	return &side{Cluster: c, all: all}, c.Explain(err)
}

func (s *side) explain(kind schema.GroupVersionKind, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s does not serve %s of %s", s.What, kind.Kind, kind.GroupVersion())
	}
	return s.Explain(err)
}

func (s *side) list(ctx context.Context, kind schema.GroupVersionKind, o ...client.ListOption) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for list := (&unstructured.UnstructuredList{}); ; {
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.all.List(ctx, list, append(slices.Clone(o), client.Limit(page), client.Continue(list.GetContinue()))...); err != nil {
			return nil, s.explain(kind, fmt.Errorf("list %s: %w", kind.Kind, err))
		}
		all = append(all, list.Items...)
		if list.GetContinue() == "" {
			return all, nil
		}
	}
}
