// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const manyMoves = `
mirror: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [many]}, to: {naming: Mirror, namespace: old}}
translated: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [many]}, to: {naming: Translated, namespace: old}}
`

// addresses are where the copies of each original of each rule are.
type addresses map[string]map[string]bool

// see fails the test if an original has no copy at all after an event.
func (a addresses) see(t *testing.T, e watch.Event) {
	t.Helper()
	one, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		t.Fatalf("the watch has ended: %v", e)
	}
	of := one.Labels[managedBy] + "/" + one.Annotations["sync.clusterfx.dev/object-name"]
	if a[of] == nil {
		a[of] = map[string]bool{}
	}
	at := one.Namespace + "/" + one.Name
	if e.Type != watch.Deleted {
		a[of][at] = true
		return
	}
	if delete(a[of], at); len(a[of]) == 0 {
		t.Errorf("%s has no copy after that at %s is gone", of, at)
	}
}

// Promise: 1 000 copies are moved: all of them, none is lost, and none is without either copy.
func TestEngine_ManyMoves(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "./modules/objectsync TestEngine_Moves")
	objects, err := strconv.Atoi(cmp.Or(os.Getenv("CLUSTERFX_OBJECTS"), "1000"))
	testkit.Must(t, err)
	hub := hubOf(t, manyMoves)
	a := hub.Remote("a")
	a.Create(namespace("old", nil), namespace("new", nil))
	changes, err := a.Client().Watch(t.Context(), &corev1.ConfigMapList{}, client.HasLabels{managedBy})
	testkit.Must(t, err)
	defer changes.Stop()
	hub.Create(namespace("many", nil))
	fill(t, hub, objects)
	known, there := addresses{}, map[string]int{}
	see := func() {
		e := <-changes.ResultChan()
		known.see(t, e)
		switch namespace := e.Object.(*corev1.ConfigMap).Namespace; e.Type {
		case watch.Added:
			there[namespace]++
		case watch.Deleted:
			there[namespace]--
		}
	}
	for there["old"] < 2*objects {
		see()
	}
	began := time.Now()
	for _, name := range []string{"mirror", "translated"} {
		editRule(t, hub, name, func(r *hubv1.SyncRule) { r.Spec.To.Namespace = "new" })
	}
	for there["new"] < 2*objects || there["old"] > 0 {
		see()
	}
	t.Logf("%d copies were moved in %s", 2*objects, time.Since(began))
	testkit.Equal(t, len(known), 2*objects)
	waitRule(t, hub, "mirror", "Ready=True/Following")
	if r := waitRule(t, hub, "translated", "Ready=True/Following"); *r.Status.ProblemCount > 0 {
		t.Error(fmt.Sprint("problems: ", r.Status.Problems))
	}
}
