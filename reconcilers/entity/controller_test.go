// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.store.Bucket().Health().Identity.Created, Accepted: time.Now()}))
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

// waitReconciles waits until there were that many reconciles.
func (s *stage) waitReconciles(t *testing.T, name string, want int64) {
	t.Helper()
	entitytest.Eventually(t, func() error {
		if got := s.reconciles.Load(); got < want {
			return fmt.Errorf("%s: %d reconciles, want %d", name, got, want)
		}
		return nil
	})
}

// D7: writes are told on the secondaries, and an object of another owner on that object, since an entity is no object of Kubernetes.
func TestD7_Events(t *testing.T) {
	t.Parallel()
	s := begin(t)
	entitytest.Must(t, s.remote.Create(t.Context(), s.configMap("a.foreign", nil)))
	s.put(t, "a.foreign", value("ours"))
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.foreign", "NameTaken")
	s.wait(t, "a.x", "1")
	s.put(t, "a.x", value("2"))
	s.wait(t, "a.x", "2")
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.waitGone(t, "a.x")
	s.waitEvent(t, "a.foreign", corev1.EventTypeWarning, `Resource "a.foreign" already exists and is not managed by this controller, for Order a.foreign`)
	for _, done := range []string{"created", "updated", "deleted"} {
		s.waitEvent(t, "a.x", corev1.EventTypeNormal, `"a.x" synced successfully (`+done+`), for Order a.x`)
	}
}

// waitEvent waits for an event about an object.
func (s *stage) waitEvent(t *testing.T, name, kind, note string) {
	t.Helper()
	entitytest.Eventually(t, func() error {
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
func TestD8_Resync(t *testing.T) {
	t.Parallel()
	s := beginWith(t, func(s *stage) { s.resync = 100 * time.Millisecond })
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.x", "Made")
	s.waitReconciles(t, "resync", s.reconciles.Load()+5)
}

// D10: a reconcile that fails is repeated, and the status says so meanwhile without the text of the error.
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
func TestD12_StatusIsApart(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	s.waitPart(t, "a.x", "Made")
	before, err := s.kv.Get(t.Context(), "a.x")
	entitytest.Must(t, err)
	_, err = s.status.Put(t.Context(), "a.x", []byte(`{"clusters":{"oslo":{"revision":1,"ready":true,"since":"2026-01-01T00:00:00Z"}}}`))
	entitytest.Must(t, err)
	e, err := s.store.Get("a.x")
	entitytest.Must(t, err)
	e.Value.Data = map[string]string{"k": "2"}
	revision, err := s.store.Update(t.Context(), e)
	entitytest.Must(t, err)
	if e.Revision != bucket.Revision(before.Revision()) || revision <= e.Revision {
		t.Errorf("the value has revision %d, then %d; it had %d before the status", e.Revision, revision, before.Revision())
	}
	entitytest.Eventually(t, func() error {
		all, err := s.reports.Get(t.Context(), "a.x")
		if err == nil && (all.Clusters["remote"].Revision != revision || !all.Clusters["oslo"].Ready) {
			err = fmt.Errorf("the status is %+v, want revision %d", all, revision)
		}
		return err
	})
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

// A secondary that is as desired costs no request, for typed and for unstructured objects, also in a new process and when it is
// reconciled again.
func TestApply_NoRequest(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]func(*corev1.ConfigMap) client.Object{
		"typed": func(c *corev1.ConfigMap) client.Object { return c },
		"unstructured": func(c *corev1.ConfigMap) client.Object {
			u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": c.Data["k"]}}}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			u.SetNamespace(c.Namespace)
			u.SetName(c.Name)
			return u
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := beginWith(t, func(s *stage) {
				s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
					return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
						err := out.Apply(ctx, object(s.configMap(e.Key, e.Value.Data)))
						s.reconciles.Add(1)
						return entity.Report{Ready: err == nil}, err
					})
				}
			})
			s.put(t, "a.x", value("1"))
			s.wait(t, "a.x", "1")
			s.stop()
			s.applied.Store(0)
			s.process(t)
			for range 3 {
				before := s.reconciles.Load()
				entitytest.Eventually(t, func() error {
					s.controller.EnqueueKey("a.x", entity.OperationResync)
					if s.reconciles.Load() <= before+1 {
						return errors.New("it is not reconciled again yet")
					}
					return nil
				})
			}
			if n := s.applied.Load(); n != 0 {
				t.Errorf("%d requests to apply, want none", n)
			}
			s.put(t, "a.x", value("2"))
			s.wait(t, "a.x", "2")
		})
	}
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
			if key := <-gone; key != "a.x" {
				t.Errorf("%s is gone, want a.x", key)
			}
			entitytest.Eventually(t, func() error {
				if _, err := s.status.Get(t.Context(), "a.x"); !errors.Is(err, jetstream.ErrKeyNotFound) {
					return fmt.Errorf("the status is left: %w", err)
				}
				return nil
			})
		})
	}
}

// A kind that Owns lacks is refused, and a bucket that OwnsEntities lacks: nothing would collect what is there.
func TestApply_OfAnotherKind(t *testing.T) {
	t.Parallel()
	refused := make(chan error, 100)
	s := beginWith(t, func(s *stage) {
		s.adapt = func(*entity.Options, entity.Reconciler[order], func(string) *bucket.Bucket) entity.Reconciler[order] {
			return entity.Func[order](func(ctx context.Context, e *entity.Entity[order], out *entity.Secondaries) (entity.Report, error) {
				refused <- out.Apply(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: e.Key}})
				refused <- entity.PutEntity(ctx, out, s.store, entity.Entity[order]{Key: e.Key + ".copy"})
				return entity.Report{}, nil
			})
		}
	})
	s.put(t, "a.x", value("1"))
	for range 2 {
		if err := <-refused; !errors.Is(err, entity.ErrInvalidOptions) {
			t.Errorf("got %v", err)
		}
	}
	err := s.remote.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "a.x"}, &corev1.ServiceAccount{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the object was made: %v", err)
	}
}

// While NATS is away a secondary is repaired without an error, since its status is as it should be.
func TestController_RepairsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", value("1"))
	found := s.wait(t, "a.x", "1")
	s.waitPart(t, "a.x", "Made")
	s.server.Kill()
	entitytest.Eventually(t, func() error {
		if s.orders.Health().Complete || s.reported.Health().Complete {
			return errors.New("the loss is not noticed yet")
		}
		return nil
	})
	for i := range 5 { // With an error the fifth repair would come late.
		found.Data["k"] = fmt.Sprint("edited ", i)
		entitytest.Must(t, s.remote.Update(t.Context(), found))
		found = s.wait(t, "a.x", "1")
	}
}
