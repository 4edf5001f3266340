// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/fx"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
)

// remove deletes a Cluster.
func (h *hub) remove(name string) {
	h.t.Helper()
	h.must(h.Delete(h.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func TestCluster_Deletion(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) { o.modules = modules.All() })
	remote := fleettest.Cluster(t, "one")
	ready := func(t *testing.T, suffix string) (*hub, string) {
		h := *h
		h.t = t
		name := h.name(suffix)
		h.putKubeconfig(name, remote.Kubeconfig())
		h.newCluster(name, nil)
		h.expectReady(name)
		return &h, name
	}
	t.Run("stops the app, and needs no Secret", func(t *testing.T) {
		h, name := ready(t, "b")
		h.deleteSecret(name)
		h.remove(name)
		h.expectGone(name)
		h.expectEvent(name, "Deregistered")
	})
	t.Run("leaves the finalizers of others alone" /* fault F71 */, func(t *testing.T) {
		h, name := ready(t, "d")
		const foreign = "example.com/theirs"
		h.change(name, func(c *hubv1.Cluster) { controllerutil.AddFinalizer(c, foreign) })
		h.remove(name)
		h.eventually(func() error {
			if left := h.get(name).Finalizers; len(left) != 1 || left[0] != foreign {
				return fmt.Errorf("got finalizers %v, want only the finalizer of another controller", left)
			}
			return nil
		})
		h.expectStopped(name)
		h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, foreign) })
		h.expectGone(name)
	})
	t.Run("stops the app also when another client removes the finalizer", func(t *testing.T) {
		h, name := ready(t, "e")
		// Both requests come at once, so that the hub may not see the Cluster again.
		var c *hubv1.Cluster
		h.eventually(func() error {
			c = h.get(name)
			c.Finalizers = nil
			return h.Update(t.Context(), c)
		})
		h.must(client.IgnoreNotFound(h.Delete(t.Context(), c)))
		h.eventually(func() error {
			if _, ok := h.registry.Status(registry.ClusterName(name)); ok {
				return errors.New("the app still runs")
			}
			return nil
		})
	})
}

// hooked is a module with hooks and a cleanup step. A nil function does nothing.
func hooked(name string, start, stop, clean func(context.Context) error) registry.Module {
	var parts []fx.Option
	if start != nil || stop != nil {
		parts = append(parts, fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.Hook{OnStart: start, OnStop: stop})
		}))
	}
	if clean != nil {
		parts = append(parts, fx.Provide(registry.AsCleanup(func() registry.CleanupStep {
			return registry.CleanupStep{Name: name + "/everything", Run: clean}
		})))
	}
	return registry.NewModule(name, registry.ModuleOptions{Remote: fx.Options(parts...)})
}

// expectNote waits for an event whose note contains a text.
func (h *hub) expectNote(name, reason, text string) {
	h.t.Helper()
	h.eventually(func() error {
		var all eventsv1.EventList
		h.must(h.List(h.t.Context(), &all))
		var notes []string
		for _, e := range all.Items {
			if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
			if e.Regarding.Name == name {
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return fmt.Errorf("no event %s contains %q: %q", reason, text, notes)
	})
}

// expectForgotten waits until both a Cluster and its app are gone. That is weaker than expectGone: an API server may
// delete a Cluster in the moment in which it gets its finalizer, and then the Cluster is gone before its app.
func (h *hub) expectForgotten(name string) {
	h.t.Helper()
	h.eventually(func() error {
		var c hubv1.Cluster
		err := h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c)
		if info, known := h.registry.Status(registry.ClusterName(name)); known || err == nil {
			return fmt.Errorf("want no app and no Cluster, got %+v and %+v", info, c)
		}
		return client.IgnoreNotFound(err)
	})
}

// Fault F69: a Cluster is deleted and immediately recreated with other credentials. Two apps of the same name never run
// at the same time, the second Cluster records the identity of its own remote, and no version of its status contains
// values of the first.
func TestCluster_DeletionFollowedByACluster(t *testing.T) {
	t.Parallel()
	var atWork, most atomic.Int64
	counting := hooked("counting",
		func(context.Context) error {
			if now := atWork.Add(1); now > most.Load() {
				most.Store(now)
			}
			return nil
		},
		func(context.Context) error {
			atWork.Add(-1)
			return nil
		}, nil)
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{counting} })
	remotes := []*fleet.Cluster{fleettest.Cluster(t, "one"), fleettest.Cluster(t, "hub")}
	name := h.name("a")
	versions := h.versionsOf(name)
	remoteOf := map[types.UID]*fleet.Cluster{}
	for i := range 6 {
		remote := remotes[i%2]
		h.putKubeconfig(name, remote.Kubeconfig())
		var made *hubv1.Cluster
		h.eventually(func() error { return h.create(name, func(c *hubv1.Cluster) { made = c }) })
		remoteOf[made.UID] = remote
		if i%3 > 0 { // Some Clusters are deleted before they are Ready.
			h.expectReady(name)
			h.eventually(func() error {
				if id := h.get(name).Annotations[hubv1.AnnotationID]; id != idOf(t, remote) {
					return fmt.Errorf("got recorded id %q, want the id of the remote in the Secret", id)
				}
				return nil
			})
		}
		h.remove(name)
	}
	h.expectForgotten(name)
	fingerprints := map[string]*fleet.Cluster{}
	for _, c := range versions() {
		expectOwnStatus(t, &c, remoteOf[c.UID], fingerprints)
	}
	if len(fingerprints) != len(remotes) {
		t.Errorf("got fingerprints %v in the statuses, want one for each remote", fingerprints)
	}
	if most.Load() > 1 || atWork.Load() != 0 {
		t.Errorf("got %d apps at the same time and %d apps at the end, want 1 and 0", most.Load(), atWork.Load())
	}
}

// expectOwnStatus checks that the status of a Cluster contains values of its own remote only. fingerprints has the remote
// of each fingerprint that was seen before.
func expectOwnStatus(t *testing.T, c *hubv1.Cluster, remote *fleet.Cluster, fingerprints map[string]*fleet.Cluster) {
	t.Helper()
	s := c.Status
	if s.ID != "" && s.ID != idOf(t, remote) || s.Server != "" && s.Server != remote.Server() {
		t.Errorf("got id %q and server %q, want those of the remote: %s", s.ID, s.Server, summary(c))
	}
	if f := s.Credentials.Fingerprint; f != "" {
		if of, known := fingerprints[f]; known && of != remote {
			t.Errorf("got the fingerprint %s of another remote: %s", f, summary(c))
		}
		fingerprints[f] = remote
	}
	for _, one := range s.Conditions {
		if one.LastTransitionTime.Unix() > 0 && one.LastTransitionTime.Before(&c.CreationTimestamp) { // The CRD's default is 0.
			t.Errorf("the condition %s is from %s, before the Cluster: %s", one.Type, one.LastTransitionTime, summary(c))
		}
	}
}

// Fault F59: the hub ends in the middle of the removal of a Cluster. The restarted hub completes the removal, and its cleanup step
// succeeds once. TestCluster_RestartOfTheHub deletes a Cluster while the hub is down.
func TestCluster_DeletionIsTakenUpAfterARestart(t *testing.T) {
	t.Parallel()
	var cleaned, interrupted atomic.Int64
	var blocks atomic.Bool
	blocks.Store(true)
	entered := make(chan struct{}, 1)
	h := newHub(t, func(o *hubOptions) {
		o.settings.RemoveWithin = 10 * patience
		o.modules = []registry.Module{hooked("tidy", nil, nil, func(ctx context.Context) error {
			if blocks.Load() {
				entered <- struct{}{}
				<-ctx.Done()
				interrupted.Add(1)
				return context.Cause(ctx)
			}
			cleaned.Add(1)
			return nil
		})}
	})
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	h.expect(name, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	h.remove(name)
	<-entered
	h.stop()
	if left := h.get(name).Finalizers; interrupted.Load() != 1 || len(left) != 1 {
		t.Errorf("got %d interrupted cleanup steps and finalizers %v, want one of each", interrupted.Load(), left)
	}
	blocks.Store(false)
	h.start()
	h.expectGone(name)
	if n := cleaned.Load(); n != 1 {
		t.Errorf("the cleanup step succeeded %d times, want once", n)
	}
	h.expectEvent(name, "Deregistered")
	if n := h.events(name)["Abandoned"]; n > 0 {
		t.Errorf("got %d events of an incomplete cleanup, want none", n)
	}
}
