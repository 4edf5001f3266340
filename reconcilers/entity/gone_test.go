// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// D3: an order that is deleted and created again does not inherit the secondaries of the earlier one, whether a process sees it or
// not.
// Promise: secondaries have the life of their primary.
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
			testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
			s.put(t, "a.x", value("1"))
			if !live {
				s.process(t)
			}
			testkit.Eventually(t, func() error {
				if s.wait(t, "a.x", "1").UID == first.UID {
					return errors.New("the secondary of the earlier order is left")
				}
				return nil
			})
		})
	}
}

// D4: a deletion whose marker was compacted while no process ran is carried out.
// Promise: garbage: collected when the list is complete, after a start and after a loss.
func TestD4_ACompactedDeletion(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.put(t, "a.stays", value("1"))
	s.wait(t, "a.x", "1")
	s.wait(t, "a.stays", "1")
	s.stop()
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	testkit.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	s.process(t)
	s.waitGone(t, "a.x")
	s.wait(t, "a.stays", "1")
	if n, cause := s.owned.Load(), s.cause.Load(); n != 2 || cause != "" {
		t.Errorf("the delete is declared as one of %d secondaries, want 2, and has the cause %q: the limits count those of all orders", n, cause)
	}
}

// The identity of the bucket is saved after a collection, so that a backup from before it is recognized.
func TestGone_SavesTheIdentity(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	saved, _, err := s.anchor.Load(t.Context())
	testkit.Must(t, err)
	var seen uint64
	testkit.Eventually(t, func() error {
		if seen = s.orders.Health().Identity.Counter; seen <= saved.Counter {
			return errors.New("no canary is seen yet")
		}
		return nil
	})
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	testkit.Eventually(t, func() error {
		id, _, err := s.anchor.Load(t.Context())
		if err == nil && id.Counter < seen {
			err = fmt.Errorf("the identity %+v is saved, want the counter %d", id, seen)
			if now := s.orders.Health().Identity.Counter; now > seen+50 { // It is saved each minute in any case, of 200 canaries.
				t.Fatalf("%v: the canary is %d", err, now)
			}
		}
		return err
	})
}

// A purge is evidence. The marker of a value that is too old is none: all values are, once somebody gives the bucket an age.
func TestGone_Expired(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	testkit.Must(t, s.kv.Purge(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	if !s.declared.Load() {
		t.Error("the delete after a purge has no evidence")
	}
	s.put(t, "a.y", value("1"))
	s.wait(t, "a.y", "1")
	stream, err := s.js.Stream(t.Context(), "KV_orders")
	testkit.Must(t, err)
	c := stream.CachedInfo().Config
	c.MaxAge, c.Duplicates, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = time.Second, time.Second, true, time.Hour
	testkit.Must(t, testkit.Err(s.js.UpdateStream(t.Context(), c)))
	s.waitGone(t, "a.y")
	if m, ok := s.orders.Marker("a.y"); !ok || s.declared.Load() {
		t.Errorf("the delete after an expiry has evidence, or the bucket no marker: %v, %t", m, ok)
	}
}

// What a live order no longer wants is deleted because of that order.
func TestSecondaries_Cause(t *testing.T) {
	t.Parallel()
	s := beginWith(t, func(s *stage) {
		s.adapt = func(_ *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				if e.Value.Data == nil {
					return entity.Report{}, out.DeleteOthers(ctx)
				}
				return r.Reconcile(ctx, e, out)
			})
		}
	})
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	s.put(t, "a.x", `{}`)
	s.waitGone(t, "a.x")
	testkit.Equal(t, s.cause.Load(), "Order a.x", "the cause of the delete is")
}

// setBack is a connection whose values have earlier times, after a revision, as of a server whose clock was set back.
type setBack struct {
	jetstream.JetStream
	after atomic.Uint64
}

type setBackKV struct {
	jetstream.KeyValue
	of *setBack
}

type setBackWatch struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
}

type setBackEntry struct{ jetstream.KeyValueEntry }

func (c *setBack) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	kv, err := c.JetStream.KeyValue(ctx, name)
	return setBackKV{KeyValue: kv, of: c}, err
}

func (kv setBackKV) WatchAll(ctx context.Context, o ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	inner, err := kv.KeyValue.WatchAll(ctx, o...)
	if err != nil {
		return nil, err
	}
	w := setBackWatch{KeyWatcher: inner, updates: make(chan jetstream.KeyValueEntry)}
	go func() {
		defer close(w.updates)
		for e := range inner.Updates() {
			if after := kv.of.after.Load(); e != nil && after > 0 && e.Revision() > after {
				e = setBackEntry{e}
			}
			w.updates <- e
		}
	}()
	return w, nil
}

func (w setBackWatch) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

func (e setBackEntry) Created() time.Time { return e.KeyValueEntry.Created().Add(-30 * time.Second) }

// The clock of the server is set back by 30 s between a delete and the next put. After five updates and a lost connection the object of
// the live order is still the same.
// Promise: the clock of the server is set back: revisions decide, and never times.
func TestController_ClockSetBack(t *testing.T) {
	t.Parallel()
	var clock *setBack
	s := beginWith(t, func(s *stage) {
		clock = &setBack{JetStream: s.js}
		s.js = clock
	})
	s.put(t, "a.x", value("1"))
	s.wait(t, "a.x", "1")
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	marker, ok := s.orders.Marker("a.x")
	if !ok {
		t.Fatal("the marker is not known")
	}
	clock.after.Store(uint64(marker.Revision))
	s.put(t, "a.x", value("2"))
	before := s.wait(t, "a.x", "2")
	for i := range bucket.History {
		s.put(t, "a.x", value(fmt.Sprint("update ", i)))
		s.wait(t, "a.x", fmt.Sprint("update ", i))
	}
	losses := s.orders.Losses()
	s.server.Kill()
	s.server.Restart()
	testkit.Eventually(t, func() error {
		if s.orders.Losses() == losses {
			return errors.New("the connection is not lost yet")
		}
		return s.orders.Absent("a.none")
	})
	s.put(t, "a.x", value("3"))
	testkit.Equal(t, s.wait(t, "a.x", "3").UID, before.UID, "the object of a live order was deleted")
}

// Etcd and NATS are restored together, so the canary is the one that was saved: the marks of objects that were made after the backup show
// it, and nothing is deleted until the bucket is accepted.
// Promise: etcd and NATS are restored together: the marks of objects show it: nothing is deleted until accept.
func TestController_RestoredTogether(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.old", value("1"))
	s.wait(t, "a.old", "1")
	s.stop()
	s.server.Kill()
	restore := s.server.Save()
	saved, _, err := s.anchor.Load(t.Context())
	testkit.Must(t, err)
	s.server.Restart()
	s.process(t)
	const orders = 6
	for i := range orders {
		s.put(t, fmt.Sprint("a.new", i), value("1"))
		s.wait(t, fmt.Sprint("a.new", i), "1")
	}
	s.stop()
	s.server.Kill()
	restore()
	testkit.Must(t, s.anchor.Save(t.Context(), saved))
	s.server.Restart()
	s.process(t)
	testkit.Eventually(t, func() error {
		if h := s.orders.Health(); !h.Complete || !h.Changed {
			return fmt.Errorf("the restored bucket is taken for the one before: %+v", h)
		}
		return nil
	})
	s.put(t, "a.old", value("2"))
	s.wait(t, "a.old", "2")
	for i := range orders {
		s.wait(t, fmt.Sprint("a.new", i), "1")
	}
	id := s.orders.Health().Identity
	id.Accepted = time.Now()
	testkit.Must(t, s.anchor.Save(t.Context(), id))
	for i := range orders {
		s.waitGone(t, fmt.Sprint("a.new", i))
	}
	s.wait(t, "a.old", "2")
}

// An order that needs an entity of another bucket keeps its object in three restarts in which that bucket is not read yet: what is not
// known is not absent.
// Promise: a bucket that a reconciler reads is not read yet: Store.Get says so, and not that the entity does not exist.
func TestStore_GetBeforeTheBucketIsRead(t *testing.T) {
	t.Parallel()
	var connected atomic.Bool
	var asked sync.Map // the keys that were reconciled without prices
	connected.Store(true)
	s := beginWith(t, func(s *stage) {
		prices := nats.Bucket(t, s.js, "prices")
		testkit.Must(t, testkit.Err(prices.Put(t.Context(), "tea", []byte(`{"total":"3"}`))))
		s.adapt = func(_ *entity.Options, r entity.Reconciler[order], _ func(string) *bucket.Bucket) entity.Reconciler[order] {
			b, err := bucket.New(bucket.Options{Name: "prices", Writer: "hub", Beat: beat, JetStream: func() (jetstream.JetStream, error) {
				if !connected.Load() {
					return nil, errBroken
				}
				return s.js, nil
			}})
			testkit.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				b.Run(ctx)
			}()
			t.Cleanup(func() {
				cancel()
				<-done
			})
			store := entity.NewStore(b, entity.JSON[map[string]string](nil))
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				_, err := store.Get("tea")
				if err == nil {
					return r.Reconcile(ctx, e, out)
				}
				asked.Store(e.Key, true)
				if errors.Is(err, bucket.ErrNotFound) {
					return entity.Report{Omit: true}, out.DeleteOthers(ctx)
				}
				return entity.Report{}, err
			})
		}
	})
	const orders = 15
	uids := map[string]types.UID{}
	for i := range orders {
		key := fmt.Sprint("a.", i)
		s.put(t, key, value("1"))
		uids[key] = s.wait(t, key, "1").UID
	}
	for range 3 {
		s.stop()
		connected.Store(false)
		asked.Clear()
		s.process(t)
		for key := range uids {
			testkit.Eventually(t, func() error {
				if _, ok := asked.Load(key); !ok {
					return fmt.Errorf("%s is not reconciled yet", key)
				}
				return nil
			})
		}
		connected.Store(true)
		s.put(t, "a.0", value("again"))
		s.wait(t, "a.0", "again")
		s.put(t, "a.0", value("1"))
		s.wait(t, "a.0", "1")
	}
	for key, uid := range uids {
		testkit.Equal(t, s.wait(t, key, "1").UID, uid, "the object of", key, "was deleted")
	}
}

// Nothing is collected because a bucket was recreated: its entities are followed, and markers in it count, although the marks had later
// revisions. After it is accepted, the secondaries of keys that it lacks are collected.
// Promise: objects are collected only from a complete list of the same bucket.
func TestController_RecreatedBucket(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for i := range 100 {
		s.put(t, "a.x", value(fmt.Sprint(i)))
	}
	for _, key := range []string{"a.x", "a.y", "a.z"} {
		s.put(t, key, value("1"))
		s.wait(t, key, "1")
	}
	s.server.Kill()
	s.server.Empty()
	for _, name := range []string{"orders", "orders-status"} {
		testkit.Eventually(t, func() error {
			_, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, History: 5})
			return err
		})
	}
	s.put(t, "a.y", value("2"))
	s.wait(t, "a.y", "2")
	testkit.Eventually(t, func() error { return s.kv.Delete(t.Context(), "a.y") }) // The connection may be lost again.
	s.waitGone(t, "a.y")
	s.put(t, "a.new", value("1"))
	s.wait(t, "a.new", "1")
	s.wait(t, "a.x", "1")
	s.wait(t, "a.z", "1")
	testkit.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.store.Bucket().Health().Identity.Created, Accepted: time.Now()}))
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
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	s.server.Kill()
	restore := s.server.Save()
	s.server.Restart()
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte(value("2"))); return err })
	before := s.wait(t, "a.x", "2")
	s.stop()
	testkit.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.orders.Health().Identity.Created, Counter: 1 << 40}))
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
	testkit.Equal(t, s.wait(t, "a.x", "2").UID, before.UID, "the secondary of an entity that the restored bucket lacks was deleted")
	id := s.orders.Health().Identity
	id.Accepted = time.Now()
	testkit.Must(t, s.anchor.Save(t.Context(), id))
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
			testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
			if compacted {
				testkit.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
			}
			s.process(t)
			testkit.Eventually(t, func() error {
				select {
				case key := <-gone:
					testkit.Equal(t, key, "a.x", "the key that is gone")
					return nil
				default:
					return errors.New("no key is gone yet")
				}
			})
			testkit.Eventually(t, func() error {
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
			b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: use(s.js), Writer: "hub", Beat: beat, Disposable: true})
			testkit.Must(t, err)
			late, o.Status = b, entity.NewStatusStore(b)
			return r
		}
		testkit.Must(t, testkit.Err(s.status.Put(t.Context(), "a.x", []byte(`{"clusters":{"remote":{"revision":1,"ready":true}}}`))))
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
	testkit.Eventually(t, func() error {
		if _, err := s.status.Get(t.Context(), "a.x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
			return fmt.Errorf("the status is left: %w", err)
		}
		return nil
	})
}
