// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// history has the versions of every Cluster that the hub's API server sent, and their times. kubectl get --watch shows
// the same, so that measured times include everything between a fault and its condition.
type history struct {
	mu       sync.Mutex // protects the fields
	versions map[string][]version
	changed  chan struct{} // closed when a version is added
}

// version is a version of a Cluster and the time at which it arrived; the Cluster is nil if it was deleted.
type version struct {
	at      time.Time
	cluster *hubv1.Cluster
}

// newHistory starts to watch the Clusters, until the test ends.
func newHistory(s *stage) *history {
	s.t.Helper()
	h := &history{versions: map[string][]version{}, changed: make(chan struct{})}
	clusters, err := cache.New(s.hub.Config(), cache.Options{Scheme: s.scheme})
	must(s.t, err)
	informer, err := clusters.GetInformer(s.t.Context(), &hubv1.Cluster{}, cache.BlockUntilSynced(false))
	must(s.t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.add(obj.(*hubv1.Cluster)) },
		UpdateFunc: func(_, obj any) { h.add(obj.(*hubv1.Cluster)) },
		DeleteFunc: func(obj any) {
			if c, ok := obj.(*hubv1.Cluster); ok {
				h.put(c.Name, nil)
			}
		},
	})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		testkit.NoError(s.t, clusters.Start(ctx), "watch the Clusters")
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	if !clusters.WaitForCacheSync(s.t.Context()) {
		s.t.Fatal("the cache of Clusters does not sync")
	}
	return h
}

func (h *history) add(c *hubv1.Cluster) { h.put(c.Name, c) }

func (h *history) put(name string, c *hubv1.Cluster) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[name] = append(h.versions[name], version{time.Now(), c})
	close(h.changed)
	h.changed = make(chan struct{})
}

// since returns the version at the time then and all later versions, and a channel that is closed when a version is
// added.
func (h *history) since(name string, then time.Time) ([]version, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.versions[name]
	first := 0
	for i, v := range all {
		if !v.at.After(then) {
			first = i
		}
	}
	return append([]version(nil), all[first:]...), h.changed
}

// await returns the first time, then or later, at which want is true for a Cluster; want is called with nil for a
// Cluster that does not exist. The error contains the last version.
func (h *history) await(ctx context.Context, name string, then time.Time, want func(*hubv1.Cluster) bool) (time.Time, error) {
	for {
		versions, changed := h.since(name, then)
		for _, v := range versions {
			if want(v.cluster) && v.at.After(then) {
				return v.at, nil
			}
			if want(v.cluster) {
				return then, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			last := "there is none"
			if n := len(versions); n > 0 && versions[n-1].cluster != nil {
				last = conditionText(versions[n-1].cluster)
			}
			return time.Time{}, fmt.Errorf("Cluster %s, %s after the fault: %s", name, time.Since(then).Round(time.Millisecond), last)
		}
	}
}

// hasCondition reports whether a Cluster has the condition for its current generation.
func hasCondition(c *hubv1.Cluster, kind string, status metav1.ConditionStatus, reason string) bool {
	if c == nil || c.Status.ObservedGeneration != c.Generation {
		return false
	}
	one := meta.FindStatusCondition(c.Status.Conditions, kind)
	return one != nil && one.Status == status && one.Reason == reason
}

// conditionReason returns the reason of a condition if it has the status, and "" otherwise.
func conditionReason(c *hubv1.Cluster, kind string, status metav1.ConditionStatus) string {
	one := meta.FindStatusCondition(c.Status.Conditions, kind)
	if one == nil || one.Status != status {
		return ""
	}
	return one.Reason
}

func isReady(c *hubv1.Cluster) bool {
	return hasCondition(c, hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady)
}

// isGone reports whether the Cluster does not exist.
func isGone(c *hubv1.Cluster) bool { return c == nil }
