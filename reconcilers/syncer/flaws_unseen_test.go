// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// A foreign object that the cache does not have, because it holds only copies, is not written either.
// Promise: an object of another owner with the name of a copy is neither overwritten nor deleted.
func TestD1_AForeignObjectThatIsNotInTheCache(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *syncer.PairOptions) {
		marked, err := labels.NewRequirement("sync.clusterfx.dev/managed-by", selection.Exists, nil)
		must(t, err)
		copies, err := cluster.New(fleettest.Cluster(t, "down").Config(), func(o *cluster.Options) {
			o.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.NewSelector().Add(*marked)}}
		})
		must(t, err)
		must(t, o.Manager.Add(copies))
		o.Downstream = syncer.InProcess(copies)
	})
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	foreign := b.copyOf("a")
	foreign.Data = map[string]string{"theirs": "1"}
	must(t, b.down.Create(t.Context(), foreign))
	b.run(t)
	must(t, b.up.Create(t.Context(), b.original("a", map[string]string{"ours": "1"})))
	b.expectEvent(t, "a", syncer.ReasonNameConflict, foreign.Name)
	b.expectUnchanged(t, foreign)
}
