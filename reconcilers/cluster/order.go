// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// order has a hub that starts look at the Clusters that it knows before it looks at new ones: those
// were Ready before, and of two Clusters for one remote it is known which one has it.
//
// Known is a Cluster with a recorded identity. To look at one is to post it to the registry, which
// waits for nobody, so that new ones are not held up for longer than the caches took to fill.
type order struct {
	mu    sync.Mutex // protects known; held for map operations only
	known map[string]struct{}
	begun bool
}

// begin notes, once, which Clusters are known.
func (o *order) begin(ctx context.Context, list func(context.Context) ([]hubv1.Cluster, error)) error {
	o.mu.Lock()
	begun := o.begun
	o.mu.Unlock()
	if begun {
		return nil
	}
	all, err := list(ctx)
	if err != nil {
		return fmt.Errorf("list the Clusters: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun {
		return nil
	}
	o.begun, o.known = true, map[string]struct{}{}
	for i := range all {
		if isKnown(&all[i]) {
			o.known[all[i].Name] = struct{}{}
		}
	}
	return nil
}

// looked notes that a Cluster was looked at.
func (o *order) looked(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, name)
}

// mustWait reports whether others come before a Cluster.
func (o *order) mustWait(cluster *hubv1.Cluster) bool {
	if isKnown(cluster) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.known) > 0
}

func isKnown(cluster *hubv1.Cluster) bool { return cluster.Annotations[hubv1.AnnotationID] != "" }
