// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// shardCount is the number of shards of replicas that share the Clusters.
const shardCount = 16

// hubs are the registries of the hubs that run in this process.
type hubs struct {
	mu    sync.Mutex // protects all
	all   map[string]*registry.Registry
	names []string // sorted
}

func (h *hubs) add(name string, r *registry.Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]*registry.Registry{}
	}
	if h.all[name] == nil {
		h.names = append(h.names, name)
		slices.Sort(h.names)
	}
	h.all[name] = r
}

func (h *hubs) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all, h.names = nil, nil
}

func (h *hubs) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.names)
}

// with returns the hub that has a remote, or the first one if none has it, and its name. There is no hub before the first has
// started.
func (h *hubs) with(remote string) (name string, r *registry.Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.names {
		_, known := h.all[name].Status(registry.ClusterName(remote))
		if known && !h.all[name].IsElsewhere(registry.ClusterName(remote)) {
			return name, h.all[name]
		}
	}
	if len(h.names) == 0 {
		return "", nil
	}
	return h.names[0], h.all[h.names[0]]
}

// areShared returns an error unless each replica holds some shards, and all are held. It returns nil for a hub that is alone.
func (s *stage) areShared() error {
	if s.options.replicas == 0 {
		return nil
	}
	var records coordinationv1.LeaseList
	err := s.admin.List(s.t.Context(), &records, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/sharding": "record"})
	if err != nil {
		return err
	}
	has := map[string]int{} // by Lease
	for _, one := range records.Items {
		if one.Spec.HolderIdentity != nil && one.Name != "clusterfx-shard-0" { // which has no Cluster
			has[*one.Spec.HolderIdentity]++
		}
	}
	sum := 0
	for _, shards := range has {
		sum += shards
	}
	if len(has) != s.options.replicas || sum != shardCount {
		return fmt.Errorf("the shards are with %v, want all of them with %d replicas", has, s.options.replicas)
	}
	return nil
}
