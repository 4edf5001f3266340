// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

const (
	// originals is how many objects the hub loses.
	originals = 30
	// mostPerRemote is how many deletes of a module the guard lets through in one remote.
	mostPerRemote = 20
)

func original[T client.Object](obj T, name string) T {
	obj.SetNamespace(sources)
	obj.SetName(name)
	obj.SetLabels(map[string]string{everywhere: "yes"})
	return obj
}

// A hub copies its objects to five remotes.
func TestHub(t *testing.T) {
	remotes := []string{"east", "west", "north", "south", "centre"}
	s := newStage(t, remotes...)
	t.Run("one Secret for all remotes", func(t *testing.T) { s.oneSecret(t, remotes) })
	t.Run("the hub loses its data", func(t *testing.T) { s.losesData(t, remotes) })
	t.Run("remotes that are away", func(t *testing.T) { s.away(t) })
}

// expectCopies waits until each of the remotes has so many copies of ConfigMaps.
func (s *stage) expectCopies(t *testing.T, many int, remotes ...string) {
	t.Helper()
	eventually(t, func() (err error) {
		for _, name := range remotes {
			if n := s.count(t, name); n != many {
				err = errors.Join(err, fmt.Errorf("%s has %d copies, want %d", name, n, many))
			}
		}
		return err
	})
}

// count returns the number of copies of ConfigMaps in a remote.
func (s *stage) count(t *testing.T, remote string) int {
	t.Helper()
	var all corev1.ConfigMapList
	mark := client.HasLabels{syncer.Identity{}.Keys().ManagedBy}
	must(t, s.below.List(t.Context(), &all, client.InNamespace(remote), mark))
	return len(all.Items)
}

// oneSecret expects that a Secret for all remotes costs the hub's API server one list, one watch, and no write.
func (s *stage) oneSecret(t *testing.T, remotes []string) {
	t.Helper()
	up := original(&corev1.Secret{StringData: map[string]string{"token": "1"}}, "shared")
	must(t, s.admin.Create(t.Context(), up.DeepCopy()))
	for _, value := range []string{"1", "2"} {
		must(t, s.admin.Patch(t.Context(), up.DeepCopy(), merge(`{"stringData":{"token":"`+value+`"}}`)))
		eventually(t, func() (err error) {
			for _, name := range remotes {
				var found corev1.Secret
				one := s.below.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "shared"}, &found)
				if one == nil && string(found.Data["token"]) != value {
					one = fmt.Errorf("the copy in %s has another token", name)
				}
				err = errors.Join(err, one)
			}
			return err
		})
	}
	events, err := s.hub.AuditEvents(fleet.ByAgent("clusterfx/"+replica), func(e fleet.AuditEvent) bool {
		return e.Object.Resource == "secrets" && (e.Object.Name == "shared" || strings.Contains(e.RequestURI, "everywhere"))
	})
	must(t, err)
	lists, watches := 0, 0
	for _, e := range events {
		switch {
		case e.Writes():
			t.Errorf("the hub wrote the Secret: %s", e)
		case e.Lists():
			lists++
		case e.Verb == "watch":
			watches++
		}
	}
	if lists != 1 || watches > 1 {
		t.Errorf("the hub sent %d lists and %d watches, want one of each at most: %v", lists, watches, events)
	}
	var found corev1.Secret
	must(t, s.admin.Get(t.Context(), client.ObjectKeyFromObject(up), &found))
	if len(found.Finalizers) > 0 {
		t.Errorf("the Secret has the finalizers %q", found.Finalizers)
	}
	must(t, s.admin.Delete(t.Context(), up))
	eventually(t, func() error {
		var all corev1.SecretList
		err := s.below.List(t.Context(), &all, client.HasLabels{syncer.Identity{}.Keys().ManagedBy})
		if err == nil && len(all.Items) > 0 {
			err = fmt.Errorf("there are %d copies of the Secret", len(all.Items))
		}
		return err
	})
}

// losesData restores the API server of the hub from a backup that has no originals. The guard holds the deletes, and when the
// originals are back, time alone ends the holds.
func (s *stage) losesData(t *testing.T, remotes []string) {
	t.Helper()
	old := s.etcd.backUp(t)
	for i := range originals {
		must(t, s.admin.Create(t.Context(), original(&corev1.ConfigMap{Data: map[string]string{"k": "1"}}, fmt.Sprintf("o-%d", i))))
	}
	s.expectCopies(t, originals, remotes...)
	s.pass() // The creates no longer pay for deletes.
	current := s.etcd.backUp(t)
	since := time.Now()
	restore := func(backup string) {
		t.Helper()
		s.stop()
		must(t, s.hub.Kill())
		s.etcd.restore(t, backup)
		must(t, s.hub.Restart(t.Context()))
		s.start()
	}
	restore(old)
	eventually(t, func() error { // All deletes are held, in each remote or in all together.
		held := map[string]bool{}
		for _, h := range s.registry.Load().HeldDeletes() {
			if h.Module == module && h.Fleet {
				return nil
			}
			held[h.Cluster] = held[h.Cluster] || h.Module == module
		}
		if len(held) < len(remotes) {
			return fmt.Errorf("deletes are held in %v only", held)
		}
		return nil
	})
	s.expectFewDeletes(t, since, remotes)
	restore(current)
	s.expectCopies(t, originals, remotes...)
	eventually(t, func() error {
		s.pass()
		if held := s.registry.Load().HeldDeletes(); len(held) > 0 {
			return fmt.Errorf("there are holds: %+v", held)
		}
		return nil
	})
	for _, name := range remotes {
		s.expectReady(name, metav1.ConditionTrue)
	}
	s.expectFewDeletes(t, since, remotes)
}

// expectFewDeletes reads from the audit log how many deletes each remote got.
func (s *stage) expectFewDeletes(t *testing.T, since time.Time, remotes []string) {
	t.Helper()
	events, err := s.remote.AuditEvents(fleet.ByAgent("clusterfx/"+replica), fleet.Since(since), func(e fleet.AuditEvent) bool {
		return (e.Verb == "delete" || e.Verb == "deletecollection") && e.Response.Code == 200 && !strings.Contains(e.RequestURI, "dryRun=All")
	})
	must(t, err)
	many := map[string]int{}
	for _, e := range events {
		many[e.Object.Namespace]++
		if e.Verb == "deletecollection" {
			t.Errorf("a collection was deleted: %s", e)
		}
	}
	t.Logf("deletes: %v", many)
	for _, name := range remotes {
		if many[name] > mostPerRemote {
			t.Errorf("%s lost %d copies, want at most %d", name, many[name], mostPerRemote)
		}
	}
}

// away deletes an original while one remote is dead, one paused, and one deregistered: it has gone at once. The copies go when
// their remote is back.
func (s *stage) away(t *testing.T) {
	t.Helper()
	must(t, s.networks["east"].Set(fault.Refuse()))
	s.setState(t, "west", hubv1.ClusterPaused)
	must(t, s.admin.Delete(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}))
	s.expectReady("east", metav1.ConditionFalse)
	s.expectReady("west", metav1.ConditionUnknown)
	eventually(t, func() error {
		if err := s.admin.Get(t.Context(), client.ObjectKey{Name: "north"}, &hubv1.Cluster{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster north exists: %w", err)
		}
		return nil
	})
	up := original(&corev1.ConfigMap{}, "o-0")
	must(t, s.admin.Delete(t.Context(), up.DeepCopy()))
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(up), up); !apierrors.IsNotFound(err) {
		t.Errorf("the original exists after its deletion: %v, with the finalizers %q", err, up.Finalizers)
	}
	s.expectCopies(t, originals-1, "south", "centre")
	s.expectCopies(t, originals, "east", "west", "north")
	must(t, s.networks["east"].Set(fault.Pass()))
	s.setState(t, "west", hubv1.ClusterActive)
	s.expectCopies(t, originals-1, "east", "west")
}

func (s *stage) setState(t *testing.T, name string, state hubv1.ClusterState) {
	t.Helper()
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(t, s.admin.Patch(t.Context(), c, merge(`{"spec":{"state":"`+string(state)+`"}}`)))
}
