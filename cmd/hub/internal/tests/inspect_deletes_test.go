// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// The held removals of Clusters are listed as deletes of the hub in the hub.
func TestDeletes_PrintsRemovals(t *testing.T) {
	t.Parallel()
	hub, err := access.New("the hub", fleettest.Cluster(t, "hub").Config())
	must(t, err)
	text, err := holds.Kept{Holds: map[string]holds.Saved{"hub-clusters-aaaa": {
		Module: "hub", Group: hubv1.GroupName, Resource: "clusters", Deleted: 3, More: 5, Names: []string{"edge-1", "edge-2"},
	}}}.Text()
	must(t, err)
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleettest.Namespace(t, hub, "removals-"), Name: cluster.HoldsName},
		Data:       map[string]string{holds.KeyOf("hub-0"): text},
	}
	must(t, hub.Create(t.Context(), stored))
	var table strings.Builder
	must(t, (&inspect.Deletes{Cluster: hub, Namespace: stored.Namespace}).Print(t.Context(), output.Table, &table))
	if want := "hub-clusters-aaaa hub the hub clusters.clusterfx.dev 3 5+ 0 "; !strings.Contains(strings.Join(strings.Fields(table.String()), " "), want) {
		t.Errorf("got\n%s\nwant %s", table.String(), want)
	}
}

// No allowance is lost when several operators allow deletes at the same time, of the same hold and of another hold. Those
// who allow what is known to wait allow it once.
func TestAllow_AtTheSameTime(t *testing.T) {
	t.Parallel()
	const id, other, known = "mirror-configmaps-aaaa", "mirror-secrets-bbbb", "mirror-pods-cccc"
	hub, err := access.New("the hub", fleettest.Cluster(t, "hub").Config())
	must(t, err)
	text, err := holds.Kept{Holds: map[string]holds.Saved{
		id:    {Module: "mirror", Resource: "configmaps", Deleted: 20, More: 30, Granted: 7, Spent: 3, Used: 7},
		other: {Module: "mirror", Resource: "secrets", Deleted: 20, More: 9},
		known: {Module: "mirror", Resource: "pods", Deleted: 20, More: 9, Granted: 5, Spent: 4, Used: 5},
	}}.Text()
	must(t, err)
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: cluster.HoldsName}, Data: map[string]string{holds.KeyOf(""): text},
	}
	must(t, hub.Create(t.Context(), stored))
	held := inspect.Deletes{Cluster: hub, Namespace: stored.Namespace}
	var operators sync.WaitGroup
	for range 3 {
		for hold, further := range map[string]int{id: 5, other: 2, known: 0} {
			operators.Go(func() {
				if _, err := held.Allow(t.Context(), hold, further); err != nil {
					t.Errorf("allow %s: %v", hold, err)
				}
			})
		}
	}
	operators.Wait()
	must(t, hub.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
	const want = id + "=22," + known + "=13," + other + "=6"
	testkit.Equal(t, stored.Annotations[hubv1.AnnotationAllowDeletes], want, "the annotation")
	if _, err := held.Allow(t.Context(), "mirror-pods-0000", 1); err == nil || errors.Is(err, inspect.ErrNone) {
		t.Errorf("an id that is not in force: %v", err)
	}
}
