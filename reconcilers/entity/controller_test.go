// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/internal/entitytest"
)

// Secondaries follow puts, updates, deletes and purges, and the status tells the revision.
func TestController_Follows(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.x", "1")
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
	e, err := s.store.Get("a.x")
	entitytest.Must(t, err)
	entitytest.Eventually(t, func() error {
		if p := s.waitPart(t, "a.x", "Made"); p.Revision != e.Revision || !p.Ready {
			return fmt.Errorf("status %+v of revision %d", p, e.Revision)
		}
		return nil
	})
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
	entitytest.Must(t, s.kv.Purge(t.Context(), "a.y"))
	s.waitGone(t, "a.x")
	s.waitGone(t, "a.y")
	entitytest.Eventually(t, func() error {
		_, err := s.status.Get(t.Context(), "a.x")
		if !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("the status is left: %w", err)
		}
		return nil
	})
}

// A secondary that is edited or deleted is repaired, and a foreign object is never touched.
func TestController_Secondaries(t *testing.T) {
	t.Parallel()
	s := begin(t)
	foreign := s.configMap("a.foreign", map[string]string{"k": "theirs"})
	entitytest.Must(t, s.remote.Create(t.Context(), foreign))
	s.put(t, "a.foreign", value("ours"))
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	found.Data["k"] = "edited"
	entitytest.Must(t, s.remote.Update(t.Context(), found))
	s.wait(t, "a.x", "1")
	entitytest.Must(t, s.remote.Delete(t.Context(), found))
	if again := s.wait(t, "a.x", "1"); again.UID == found.UID {
		entitytest.Eventually(t, func() error {
			if s.wait(t, "a.x", "1").UID == found.UID {
				return errors.New("the secondary is not deleted yet")
			}
			return nil
		})
	}
	s.waitPart(t, "a.foreign", "NameTaken")
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.foreign"))
	s.put(t, "a.last", value("1"))
	s.wait(t, "a.last", "1")
	now := s.wait(t, "a.foreign", "theirs")
	if now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("an object of another owner was written: %v", now)
	}
}

// D3: an order that is deleted and created again does not inherit the secondaries of the earlier one, whether a process sees it or
// not.
func TestD3_ARecreatedPrimary(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprint("seen ", live), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.put(t, "a.x", value("1"))
			first := s.wait(t, "a.x", "1")
			if !live {
				s.stop()
			}
			entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
			s.put(t, "a.x", value("1"))
			if !live {
				s.process(t)
			}
			entitytest.Eventually(t, func() error {
				if s.wait(t, "a.x", "1").UID == first.UID {
					return errors.New("the secondary of the earlier order is left")
				}
				return nil
			})
		})
	}
}

// D4: a deletion whose marker was compacted while no process ran is carried out.
func TestD4_ACompactedDeletion(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.stays", value("1"))
	s.wait(t, "a.x", "1")
	s.wait(t, "a.stays", "1")
	s.stop()
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
	entitytest.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	s.process(t)
	s.waitGone(t, "a.x")
	s.wait(t, "a.stays", "1")
	if n := s.owned.Load(); n != 2 {
		t.Errorf("the delete is declared as one of %d secondaries, want 2: the limits count those of all orders", n)
	}
}

// D5: keys with a slash, and long ones, have secondaries.
func TestD5_Keys(t *testing.T) {
	t.Parallel()
	m := entity.Marks{Prefix: entity.DefaultPrefix, Hub: "hub", Kind: "Order"}
	for _, key := range []string{"a.x", "a/b=c_d.x", fmt.Sprintf("a.%0200d", 1)} {
		obj := &corev1.ConfigMap{}
		m.SetOwner(obj, entity.Owner{Kind: "Order", Key: key, Life: bucket.Life{Revision: 7}})
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
func TestController_HostileValues(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.y", value("1"))
	first := s.wait(t, "a.x", "1")
	s.wait(t, "a.y", "1")
	for _, hostile := range []string{`{"data":`, `{"data":"secret-word"}`, `[]`, `{"bad":true}`, "\x00\xff"} {
		s.put(t, "a.x", hostile)
		e := func() *entity.Entity[order] {
			var found *entity.Entity[order]
			entitytest.Eventually(t, func() error {
				e, err := s.store.Get("a.x")
				if err == nil && e.Err == nil {
					err = errors.New("the value is decoded")
				}
				found = e
				return err
			})
			return found
		}()
		entitytest.Eventually(t, func() error {
			if p := s.waitPart(t, "a.x", entity.ReasonUndecodable); p.Message == "" {
				return fmt.Errorf("the status of %q says nothing: %w", hostile, e.Err)
			}
			return nil
		})
		s.put(t, "a.y", value(fmt.Sprint(len(hostile))))
		s.wait(t, "a.y", fmt.Sprint(len(hostile)))
	}
	if now := s.wait(t, "a.x", "1"); now.UID != first.UID {
		t.Error("the secondary was replaced")
	}
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
}

// Nothing is collected because a bucket was recreated: its entities are followed, and markers in it count. After it is
// accepted, the secondaries of keys that it lacks are collected.
func TestController_RecreatedBucket(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for _, key := range []string{"a.x", "a.y", "a.z"} {
		s.put(t, key, value("1"))
		s.wait(t, key, "1")
	}
	s.server.Kill()
	s.server.Empty()
	for _, name := range []string{"orders", "orders-status"} {
		entitytest.Eventually(t, func() error {
			_, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, History: 5})
			return err
		})
	}
	s.put(t, "a.y", value("2"))
	s.wait(t, "a.y", "2")
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.y"))
	s.waitGone(t, "a.y")
	s.put(t, "a.new", value("1"))
	s.wait(t, "a.new", "1")
	s.wait(t, "a.x", "1")
	s.wait(t, "a.z", "1")
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.store.Bucket().Health().Identity.Created}))
	s.waitGone(t, "a.x")
	s.waitGone(t, "a.z")
	s.wait(t, "a.new", "1")
}

// NATS is away: the secondaries stay, and are repaired.
func TestController_NATSIsAway(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	s.server.Kill()
	entitytest.Must(t, s.remote.Delete(t.Context(), found))
	entitytest.Eventually(t, func() error {
		if s.wait(t, "a.x", "1").UID == found.UID {
			return errors.New("the secondary is not deleted yet")
		}
		return nil
	})
	s.server.Restart()
	entitytest.Eventually(t, func() error { return s.kv.Delete(t.Context(), "a.x") })
	s.waitGone(t, "a.x")
}

// EnqueueKeyAfter: of several requests the earliest counts.
func TestController_Enqueue(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	stray := s.configMap("a.x", nil)
	entitytest.Must(t, s.remote.Get(t.Context(), client.ObjectKeyFromObject(stray), stray))
	object, key, err := entity.Marks{Prefix: entity.DefaultPrefix, Hub: s.namespace, Kind: "Order"}.DecomposeKubeSecondaryResource(stray)
	if err != nil || key != "a.x" || object.GetName() != "a.x" {
		t.Errorf("got %v, %q, %v", object, key, err)
	}
	s.controller.EnqueueKeyAfter("a.x", entity.OperationResync, 1000*time.Hour)
	s.controller.EnqueueKey("a.x", entity.OperationSecondary)
}

// A process that knows less of the history of an order writes nothing: the mark of a secondary keeps the life that it has.
func TestApply_KeepsTheLife(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	before := s.wait(t, "a.x", "1")
	s.stop()
	for range 2 * bucket.History { // The first revision is no longer in the bucket.
		s.put(t, "a.x", value("1"))
	}
	s.process(t)
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.y", "1")
	e, err := s.store.Get("a.x")
	entitytest.Must(t, err)
	entitytest.Eventually(t, func() error {
		if p := s.waitPart(t, "a.x", "Made"); p.Revision != e.Revision {
			return fmt.Errorf("revision %d is not reconciled yet: %+v", e.Revision, p)
		}
		return nil
	})
	if after := s.wait(t, "a.x", "1"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the secondary was written: %v, was %v", after, before)
	}
}
