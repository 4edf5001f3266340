// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// stuck returns a function that does not return before its release, regardless of its context, and the release.
func stuck(t testing.TB) (f func(context.Context) error, release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release) // before the hub is stopped, also if the test fails
	return func(context.Context) error {
		<-released
		return nil
	}, release
}

// Faults F67, F68, F72 to F74: if a part of an app hangs, a deletion ends in time, an event names the abandoned part, and the hub's
// only worker is free for other Clusters. TestRegistry_RemoveNamesTheStepsInTime has a runnable that hangs.
func TestCluster_DeletionOfWhatHangs(t *testing.T) {
	t.Parallel()
	const within = 6 * time.Second
	for name, tc := range map[string]struct {
		module func(hangs func(context.Context) error) registry.Module
		starts bool // the app becomes Ready
		says   string
	}{
		"a hook that starts": {
			module: func(hangs func(context.Context) error) registry.Module { return hooked("hanging", hangs, nil, nil) },
			says:   "has not ended in time",
		},
		"a cleanup step": {
			module: func(hangs func(context.Context) error) registry.Module { return hooked("hanging", nil, nil, hangs) },
			starts: true, says: "hanging/everything",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs, release := stuck(t)
			h := newHub(t, func(o *hubOptions) {
				o.modules = []registry.Module{tc.module(hangs), idle("healthy")}
				o.settings.Concurrency, o.settings.RemoveWithin = 1, within
				o.registry.Limits.StopTimeout = time.Second
			})
			t.Cleanup(release)
			name, other := h.name("a"), h.name("b")
			h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
			h.newCluster(name, nil)
			if tc.starts {
				h.expectReady(name)
			} else {
				h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionUnknown, hubv1.ReasonStarting)
			}
			began := time.Now()
			h.remove(name)
			h.putKubeconfig(other, fleettest.Cluster(t, "one").Kubeconfig())
			h.newCluster(other, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"healthy"} })
			h.expectReady(other)
			h.expectGone(name)
			if took := time.Since(began); took > 2*within+20*time.Second {
				t.Errorf("the Cluster is gone after %s, RemoveWithin is %s", took, within)
			}
			h.expectNote(name, "Abandoned", tc.says)
		})
	}
}

func TestCluster_DeletionThatTakesItsTime(t *testing.T) {
	t.Parallel()
	hangs, letGo := stuck(t)
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{hooked("stubborn", nil, hangs, nil), idle("docile")}
		o.settings.Concurrency = 1
		o.registry.Limits.StopTimeout = patience
	})
	t.Cleanup(letGo)
	name, other := h.name("a"), h.name("b")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	h.remove(name)
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonStopping)
	expectCondition(t, c, hubv1.ConditionReconciling, metav1.ConditionTrue)
	expectCondition(t, c, hubv1.ConditionCredentialsValid, metav1.ConditionTrue)

	// The only worker is free for other Clusters.
	h.putKubeconfig(other, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(other, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"docile"} })
	h.expectReady(other)
	letGo()
	h.expectGone(name)
	h.expectEvent(name, "Deregistered")
}
