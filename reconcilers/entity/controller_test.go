// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Secondaries follow puts, updates, deletes and purges, and the status tells the revision.
// Promise: what requests a key: changes of the primary, of secondaries and of what is read, the resync, the author.
func TestController_Follows(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.x", "1")
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
	e, err := s.store.Get("a.x")
	testkit.Must(t, err)
	testkit.Eventually(t, func() error {
		if p := s.waitPart(t, "a.x", "Made"); p.Revision != e.Revision || !p.Ready {
			return fmt.Errorf("status %+v of revision %d", p, e.Revision)
		}
		return nil
	})
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	testkit.Must(t, s.kv.Purge(t.Context(), "a.y"))
	s.waitGone(t, "a.x")
	s.waitGone(t, "a.y")
	testkit.Eventually(t, func() error {
		_, err := s.status.Get(t.Context(), "a.x")
		if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("the status is left: %w", err)
		}
		return nil
	})
}

// A secondary that is edited or deleted is repaired, and a foreign object is never touched.
// Promise: secondary missing or different: it is created or repaired.
func TestController_Secondaries(t *testing.T) {
	t.Parallel()
	s := begin(t)
	foreign := s.configMap("a.foreign", map[string]string{"k": "theirs"})
	testkit.Must(t, s.remote.Create(t.Context(), foreign))
	s.put(t, "a.foreign", value("ours"))
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	found.Data["k"] = "edited"
	testkit.Must(t, s.remote.Update(t.Context(), found))
	s.wait(t, "a.x", "1")
	testkit.Must(t, s.remote.Delete(t.Context(), found))
	if again := s.wait(t, "a.x", "1"); again.UID == found.UID {
		testkit.Eventually(t, func() error {
			if s.wait(t, "a.x", "1").UID == found.UID {
				return errors.New("the secondary is not deleted yet")
			}
			return nil
		})
	}
	s.waitPart(t, "a.foreign", "NameTaken")
	testkit.Must(t, s.kv.Delete(t.Context(), "a.foreign"))
	s.put(t, "a.last", value("1"))
	s.wait(t, "a.last", "1")
	now := s.wait(t, "a.foreign", "theirs")
	testkit.Equal(t, now.ResourceVersion, foreign.ResourceVersion, "an object of another owner was written", now)
}

// D5: keys with a slash, and long ones, have secondaries.
// Promise: any key of a bucket can be the key of an entity with objects.
func TestD5_Keys(t *testing.T) {
	t.Parallel()
	m := entity.Marks{Prefix: entity.DefaultPrefix, Hub: "hub", Kind: "Order"}
	for _, key := range []string{"a.x", "a/b=c_d.x", fmt.Sprintf("a.%0200d", 1)} {
		obj := &corev1.ConfigMap{}
		m.SetOwner(obj, entity.Owner{Kind: "Order", Key: key, Life: bucket.Birth{Revision: 7}})
		for label, value := range obj.Labels {
			if len(value) > 63 {
				t.Errorf("label %s has %d bytes", label, len(value))
			}
		}
		if o, ok := m.OwnerOf(obj); !ok || o.Key != key {
			t.Errorf("got %v, %t", o, ok)
		}
		// D6: marks that contradict each other are foreign.
		obj.Annotations[entity.DefaultPrefix+"/owner-key"] = "other"
		if o, ok := m.OwnerOf(obj); ok {
			t.Errorf("contradicting marks have the owner %v", o)
		}
	}
}

// A value that cannot be decoded is present: its secondaries stay, the status says why, and the neighbours notice nothing.
// Promise: values that are not JSON, null, of a wrong type, or of 1 MiB: the status says what is wrong, and the neighbours notice nothing.
func TestController_HostileValues(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.y", value("1"))
	first := s.wait(t, "a.x", "1")
	s.wait(t, "a.y", "1")
	for _, hostile := range []string{`{"data":`, `{"data":"secret-word"}`, `[]`, `{"bad":true}`, "\x00\xff", "null", " null\n"} {
		s.put(t, "a.x", hostile)
		e := func() *entity.Entity[order] {
			var found *entity.Entity[order]
			testkit.Eventually(t, func() error {
				e, err := s.store.Get("a.x")
				if err == nil && e.Err == nil {
					err = errors.New("the value is decoded")
				}
				found = e
				return err
			})
			return found
		}()
		testkit.Eventually(t, func() error {
			if p := s.waitPart(t, "a.x", entity.ReasonUndecodable); p.Message == "" {
				return fmt.Errorf("the status of %q says nothing: %w", hostile, e.Err)
			}
			return nil
		})
		s.put(t, "a.y", value(fmt.Sprint(len(hostile))))
		s.wait(t, "a.y", fmt.Sprint(len(hostile)))
	}
	testkit.Equal(t, s.wait(t, "a.x", "1").UID, first.UID, "the secondary was replaced")
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
}

// NATS is away: the secondaries stay, and are repaired.
func TestController_NATSIsAway(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	s.server.Kill()
	testkit.Must(t, s.remote.Delete(t.Context(), found))
	testkit.Eventually(t, func() error {
		if s.wait(t, "a.x", "1").UID == found.UID {
			return errors.New("the secondary is not deleted yet")
		}
		return nil
	})
	s.server.Restart()
	testkit.Eventually(t, func() error { return s.kv.Delete(t.Context(), "a.x") })
	s.waitGone(t, "a.x")
}

// EnqueueKeyAfter: of several requests for a key the earliest counts, whichever comes first.
func TestController_Enqueue(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.x", "Made")
	const never = 1000 * time.Hour
	for name, all := range map[string][]time.Duration{
		"the later first": {never, 0}, "the earlier first": {50 * time.Millisecond, never}, "without a delay": {0},
	} {
		before := s.reconciles.Load()
		for _, after := range all {
			s.controller.EnqueueKeyAfter("a.x", entity.OperationResync, after)
		}
		s.waitReconciles(t, name, before+1)
	}
	before := s.reconciles.Load()
	s.controller.EnqueueKey("a.x", entity.OperationSecondary)
	s.waitReconciles(t, "EnqueueKey", before+1)
}

func (s *stage) waitReconciles(t *testing.T, name string, want int64) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if got := s.reconciles.Load(); got < want {
			return fmt.Errorf("%s: %d reconciles, want %d", name, got, want)
		}
		return nil
	})
}

// D7: writes are told on the secondaries, and an object of another owner on that object, since an entity is no object of Kubernetes.
// Promise: secondary of another owner: reason ErrResourceExists of an event and of the status, and it is not touched.
func TestD7_Events(t *testing.T) {
	t.Parallel()
	s := begin(t)
	testkit.Must(t, s.remote.Create(t.Context(), s.configMap("a.foreign", nil)))
	s.put(t, "a.foreign", value("ours"))
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.foreign", "NameTaken")
	s.wait(t, "a.x", "1")
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	s.waitEvent(t, "a.foreign", corev1.EventTypeWarning, `Resource "a.foreign" already exists and is not managed by this controller, for Order a.foreign`)
	for _, done := range []string{"created", "updated", "deleted"} {
		s.waitEvent(t, "a.x", corev1.EventTypeNormal, `"a.x" synced successfully (`+done+`), for Order a.x`)
	}
}

func (s *stage) waitEvent(t *testing.T, name, kind, note string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		var all eventsv1.EventList
		if err := s.remote.List(t.Context(), &all, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		var notes []string
		for _, e := range all.Items {
			if e.Type == kind && e.Note == note && e.Regarding.Name == name {
				return nil
			}
			notes = append(notes, e.Note)
		}
		return fmt.Errorf("the events are %q, without %q", notes, note)
	})
}

// D8: an order is reconciled from time to time without an event, for external systems that report no changes.
// Promise: a difference in an external system is found by the resync, with jitter.
func TestD8_Resync(t *testing.T) {
	t.Parallel()
	s := beginWith(t, func(s *stage) { s.resync = 100 * time.Millisecond })
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.x", "Made")
	s.waitReconciles(t, "resync", s.reconciles.Load()+5)
}

// D10: a reconcile that fails is repeated, and the status says so meanwhile without the text of the error.
// Promise: queue: one worker for each key; an error is repeated with backoff; the request has the key only.
func TestD10_ErrorsAreRepeated(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.failures.Store(1 << 30)
	s.put(t, "a.x", value("1"))
	part := s.waitPart(t, "a.x", entity.ReasonFailed)
	if part.Ready || strings.Contains(part.Message, "abc") {
		t.Errorf("the status is %+v", part)
	}
	s.failures.Store(0)
	s.wait(t, "a.x", "1")
	if part := s.waitPart(t, "a.x", "Made"); !part.Ready {
		t.Errorf("the status is %+v", part)
	}
}

// D12: the status is in a bucket of its own. Its writes never conflict with those of values, and do not wake the controller; those
// of another cluster keep their part.
// Promise: status: in <bucket>-status, a part for each cluster, removed with the primary.
func TestD12_StatusIsApart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.x", "Made")
	before, err := s.kv.Get(t.Context(), "a.x")
	testkit.Must(t, err)
	testkit.Must(t, testkit.Err(s.status.Put(t.Context(), "a.x", []byte(`{"clusters":{"oslo":{"revision":1,"ready":true,"since":"2026-01-01T00:00:00Z"}}}`))))
	e, err := s.store.Get("a.x")
	testkit.Must(t, err)
	e.Value.Data = map[string]string{"k": "2"}
	revision, err := s.store.Update(t.Context(), e)
	testkit.Must(t, err)
	if e.Revision != bucket.Revision(before.Revision()) || revision <= e.Revision {
		t.Errorf("the value has revision %d, then %d; it had %d before the status", e.Revision, revision, before.Revision())
	}
	testkit.Eventually(t, func() error {
		all, err := s.reports.Get(t.Context(), "a.x")
		if err == nil && (all.Clusters["remote"].Revision != revision || !all.Clusters["oslo"].Ready) {
			err = fmt.Errorf("the status is %+v, want revision %d", all, revision)
		}
		return err
	})
}

// While NATS is away a secondary is repaired without an error, since its status is as it should be.
func TestController_RepairsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	s.waitPart(t, "a.x", "Made")
	s.server.Kill()
	testkit.Eventually(t, func() error {
		if s.orders.Health().Complete || s.reported.Health().Complete {
			return errors.New("the loss is not noticed yet")
		}
		return nil
	})
	for i := range 5 { // With an error the fifth repair would come late.
		found.Data["k"] = fmt.Sprint("edited ", i)
		testkit.Must(t, s.remote.Update(t.Context(), found))
		found = s.wait(t, "a.x", "1")
	}
}
