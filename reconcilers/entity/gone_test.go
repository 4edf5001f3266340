// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/internal/entitytest"
)

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
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.store.Bucket().Health().Identity.Created, Accepted: time.Now()}))
	s.waitGone(t, "a.x")
	s.waitGone(t, "a.z")
	s.wait(t, "a.new", "1")
}

// A marker in a bucket that was restored is no proof of the deletion of an entity that was created later: its secondaries stay until
// the bucket is accepted.
func TestController_RestoredMarker(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	s.server.Kill()
	restore := s.server.Save()
	s.server.Restart()
	entitytest.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte(value("2"))); return err })
	before := s.wait(t, "a.x", "2")
	s.stop()
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.orders.Health().Identity.Created, Counter: 1 << 40}))
	s.server.Kill()
	restore()
	s.server.Restart()
	s.process(t)
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.y", "1")
	if h := s.orders.Health(); !h.Changed {
		t.Fatalf("the bucket is not Changed: %+v", h)
	}
	for range 3 {
		n := s.reconciles.Load()
		s.controller.EnqueueKey("a.x", entity.OperationResync)
		s.put(t, "a.y", value(fmt.Sprint("again ", n)))
		s.wait(t, "a.y", fmt.Sprint("again ", n))
	}
	if after := s.wait(t, "a.x", "2"); after.UID != before.UID {
		t.Error("the secondary of an entity that the restored bucket lacks was deleted")
	}
	id := s.orders.Health().Identity
	id.Accepted = time.Now()
	entitytest.Must(t, s.anchor.Save(t.Context(), id))
	s.waitGone(t, "a.x")
}

// goneRecorder records the keys of Gone.
type goneRecorder struct {
	entity.Reconciler[order]
	gone chan string
}

func (r goneRecorder) Gone(_ context.Context, key string) error {
	select {
	case r.gone <- key:
	default:
	}
	return nil
}

// The deletion of an entity without secondaries reaches Gone and the status also if no process ran then, with a marker and without.
func TestGone_WhileNoProcessRuns(t *testing.T) {
	t.Parallel()
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprint("compacted ", compacted), func(t *testing.T) {
			t.Parallel()
			gone := make(chan string, 100)
			s := beginWith(t, func(s *stage) {
				s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
					return goneRecorder{Reconciler: entity.Func[order](func(context.Context, *entity.Entity[order], *entity.Secondaries) (entity.Report, error) {
						return entity.Report{Ready: true, Reason: "Elsewhere"}, nil
					}), gone: gone}
				}
			})
			s.put(t, "a.x", value("1"))
			s.waitPart(t, "a.x", "Elsewhere")
			s.stop()
			entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
			if compacted {
				entitytest.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
			}
			s.process(t)
			entitytest.Eventually(t, func() error {
				select {
				case key := <-gone:
					if key != "a.x" {
						t.Errorf("%s is gone, want a.x", key)
					}
					return nil
				default:
					return errors.New("no key is gone yet")
				}
			})
			entitytest.Eventually(t, func() error {
				if _, err := s.status.Get(t.Context(), "a.x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
					return fmt.Errorf("the status is left: %w", err)
				}
				return nil
			})
		})
	}
}

// The part of an entity that was deleted without a marker is removed, also if the status bucket is complete later than that
// of the entities.
func TestGone_StatusIsLate(t *testing.T) {
	t.Parallel()
	var late *bucket.Bucket
	s := beginWith(t, func(s *stage) {
		s.adapt = func(o *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: entitytest.Use(s.js), Writer: "hub", Beat: entitytest.Beat})
			entitytest.Must(t, err)
			late, o.Status = b, entity.NewStatusStore(b)
			return r
		}
		_, err := s.status.Put(t.Context(), "a.x", []byte(`{"clusters":{"remote":{"revision":1,"ready":true}}}`))
		entitytest.Must(t, err)
	})
	begun := time.Now()
	for n := 0; time.Since(begun) < 3*time.Second; n++ { // The keys without an entity were requested meanwhile.
		s.put(t, "a.y", value(fmt.Sprint(n)))
		s.wait(t, "a.y", fmt.Sprint(n))
	}
	running := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(running)
		late.Run(ctx)
	}()
	t.Cleanup(func() {
		s.stop()
		cancel()
		<-running
	})
	entitytest.Eventually(t, func() error {
		if _, err := s.status.Get(t.Context(), "a.x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("the status is left: %w", err)
		}
		return nil
	})
}
