// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The labels that most Clusters of a shard ask for are its pin, as the cache has the Clusters at that moment. What a hub runs
// without the labels is counted.
func TestFleet_Pins(t *testing.T) {
	t.Parallel()
	config := fleettest.Cluster(t, "pins").Config()
	direct, clusters := clientAndCache(t, config)
	const count = 3
	f, err := New(Options{Options: replica.Options{Config: config, Namespace: "default", Pod: "hub-0", Labels: map[string]string{"place": "north"}, Count: count}})
	must(t, err)
	must(t, f.Attach(nil, clusters, nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = clusters.Start(t.Context())
	}()
	t.Cleanup(func() { <-ended })
	byShard := map[int][]types.UID{}
	all := map[types.UID]*hubv1.Cluster{}
	for i := 0; len(byShard[1]) < 4 || len(byShard[2]) < 4 || len(byShard[3]) < 4; i++ {
		one := &hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pins-", i)},
			Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "none"}},
		}
		must(t, direct.Create(t.Context(), one))
		shard := shards.Of(one.UID, count)
		byShard[shard], all[one.UID] = append(byShard[shard], one.UID), one
	}
	for shard, places := range [][]string{{}, {"north", "south", "south"}, {"south", "north"}, {}} {
		for i, place := range places {
			one := all[byShard[shard][i]]
			one.Spec.Runner.MatchLabels = map[string]hubv1.LabelValue{"place": hubv1.LabelValue(place)}
			must(t, direct.Update(t.Context(), one))
		}
	}
	want := shards.Pins{1: {"place": "south"}, 2: {"place": "north"}}
	testkit.Until(t, "the pins of the labels", func() bool { return cmp.Equal(want, f.pins()) })
	for _, c := range []struct {
		epochs []int64
		unmet  int
	}{{[]int64{1, 1, 0, 1}, 2}, {[]int64{0, 4, 1, 0}, 3}, {[]int64{5, 0, 0, 7}, 0}} {
		if got := f.unmetPins(c.epochs); got != c.unmet {
			t.Errorf("epochs %v: %d pins are unmet, want %d", c.epochs, got, c.unmet)
		}
	}
	for _, uid := range slices.Concat(byShard[1], byShard[2]) {
		if one := all[uid]; one.Spec.Runner.MatchLabels != nil {
			one.Spec.Runner = hubv1.RunnerSpec{}
			must(t, direct.Update(t.Context(), one))
		}
	}
	testkit.Until(t, "no pins", func() bool { return cmp.Equal(shards.Pins{}, f.pins()) })
}
