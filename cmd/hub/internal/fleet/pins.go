// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// Indexes of the cache: the shard of a Cluster, and whether it has a pin.
const (
	shardIndex = "shard"
	pinIndex   = "spec.runner.matchLabels"
	pinnedKey  = "set"
)

const pinTimeout = time.Second // pinTimeout is for a read, which waits for the cache.

func index(clusters client.FieldIndexer, count int) error {
	ctx := context.Background() //nolint:forbidigo // Nothing waits for it.
	return errors.Join(
		clusters.IndexField(ctx, &hubv1.Cluster{}, shardIndex, func(o client.Object) []string {
			return []string{strconv.Itoa(shards.Of(o.GetUID(), count))}
		}),
		clusters.IndexField(ctx, &hubv1.Cluster{}, pinIndex, func(o client.Object) []string {
			if c, ok := o.(*hubv1.Cluster); ok && len(c.Spec.Runner.MatchLabels) > 0 {
				return []string{pinnedKey}
			}
			return nil
		}),
	)
}

// The caller must not change them.
func (f *Fleet) pinned() []hubv1.Cluster {
	ctx, cancel := context.WithTimeout(context.Background(), pinTimeout) //nolint:forbidigo // A collector of metrics has none.
	defer cancel()
	var pinned hubv1.ClusterList
	err := f.clusters.List(ctx, &pinned, client.MatchingFields{pinIndex: pinnedKey}, client.UnsafeDisableDeepCopy)
	if err != nil { // The cache has not started, or is not in sync.
		return nil
	}
	return pinned.Items
}

func wished(c *hubv1.Cluster) labels.Set {
	set := labels.Set{}
	for key, value := range c.Spec.Runner.MatchLabels {
		set[key] = string(value)
	}
	return set
}

// pins are what most Clusters of a shard ask for, of several the first in alphabetical order.
func (f *Fleet) pins() shards.Pins {
	type pin struct {
		labels labels.Set
		text   string
		votes  int
	}
	votes := map[int]map[string]int{}
	winners := map[int]pin{}
	for _, c := range f.pinned() {
		shard := shards.Of(c.UID, f.count)
		if votes[shard] == nil {
			votes[shard] = map[string]int{}
		}
		one := pin{labels: wished(&c)}
		one.text = one.labels.String()
		votes[shard][one.text]++
		one.votes = votes[shard][one.text]
		if first := winners[shard]; one.votes > first.votes || one.votes == first.votes && one.text < first.text {
			winners[shard] = one
		}
	}
	pins := shards.Pins{}
	for shard, one := range winners {
		pins[shard] = one.labels
	}
	return pins
}

func (f *Fleet) unmetPins(epochs []int64) (unmet int) {
	for _, c := range f.pinned() {
		asks := labels.SelectorFromSet(wished(&c))
		if epochs[shards.Of(c.UID, f.count)] != 0 && !asks.Matches(labels.Set(f.labels)) {
			unmet++
		}
	}
	return unmet
}
