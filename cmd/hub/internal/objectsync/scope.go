// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Scope says which rules and Clusters to look at. The zero Scope is all of them.
type Scope struct{ Rules, Clusters []string }

const parallel = 8

// inEach calls do for each rule and each Cluster that selects the module, and returns results in the order of the
// Clusters. It fails if the configuration lacks a rule.
func inEach[T any](ctx context.Context, f *Fleet, s Scope, do func(rules.Rule, *hubv1.Cluster) []T) ([]T, error) {
	for _, name := range s.Rules {
		if !f.Config.Has(name) {
			return nil, fmt.Errorf("%s: %w; there are %s", name, ErrNoRule, orNone(f.Config.Names()))
		}
	}
	clusters, err := f.clusters(ctx, s.Clusters)
	if err != nil {
		return nil, err
	}
	clusters = slices.DeleteFunc(clusters, func(c hubv1.Cluster) bool { return !f.runs(&c) })
	results := make([][]T, len(clusters))
	var asked errgroup.Group
	asked.SetLimit(parallel)
	for i := range clusters {
		asked.Go(func() error {
			for _, r := range f.Config.For(clusters[i].Labels) {
				if len(s.Rules) == 0 || slices.Contains(s.Rules, r.Name) {
					results[i] = append(results[i], do(r, &clusters[i])...)
				}
			}
			return nil
		})
	}
	_ = asked.Wait() // The results have the errors.
	return slices.Concat(results...), ctx.Err()
}
