// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// patience is how long a test waits for a state. It is reached only if the test fails.
const patience = time.Minute

// beat is the interval of canaries in tests.
const beat = 300 * time.Millisecond

// anchor is an Anchor in memory.
type anchor struct {
	mu    sync.Mutex
	id    bucket.Identity
	known bool
}

func (a *anchor) Load(context.Context) (bucket.Identity, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id, a.known, nil
}

func (a *anchor) Save(_ context.Context, id bucket.Identity) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.known = id, true
	return nil
}

// stage is a server with a bucket, and a process that follows it.
type stage struct {
	server *nats.Server
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	anchor *anchor
	closed atomic.Bool // the gate
	bucket *bucket.Bucket
	stop   func()
}

var errGate = errors.New("this process has no lease")

func begin(t *testing.T) *stage {
	t.Helper()
	s := &stage{server: nats.Start(t), anchor: &anchor{}}
	_, s.js = nats.Connect(t, s.server.URL())
	s.kv = nats.Bucket(t, s.js, "things")
	s.process(t)
	return s
}

// process starts to follow the bucket, as a new process does.
func (s *stage) process(t *testing.T) {
	t.Helper()
	b, err := bucket.New(bucket.Options{Name: "things", JetStream: s.js, Writer: "hub", Anchor: s.anchor, Beat: beat, Gate: func() error {
		if s.closed.Load() {
			return errGate
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	s.bucket = b
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(s.stop)
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put puts a value, as a client of the bucket does.
func (s *stage) put(t *testing.T, key, value string) {
	t.Helper()
	_, err := s.kv.Put(t.Context(), key, []byte(value))
	must(t, err)
}

// wait waits until the copy has a value, or none if value is empty.
func (s *stage) wait(t *testing.T, key, value string) bucket.Entry {
	t.Helper()
	var found bucket.Entry
	eventually(t, func() error {
		e, ok := s.bucket.Get(key)
		found = e
		if ok != (value != "") || string(e.Value) != value {
			return fmt.Errorf("key %s is %q, want %q; health %+v", key, e.Value, value, s.bucket.Health())
		}
		return nil
	})
	return found
}

// healthy waits until the bucket is complete.
func (s *stage) healthy(t *testing.T) {
	t.Helper()
	eventually(t, func() error { return s.bucket.Absent("no-such-key") })
}

// The copy follows puts, updates, deletes and purges, and knows their markers.
func TestBucket_Follows(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	for _, remove := range []func(context.Context, string, ...jetstream.KVDeleteOpt) error{s.kv.Delete, s.kv.Purge} {
		s.put(t, "a.x", "1")
		s.wait(t, "a.x", "1")
		s.put(t, "a.x", "2")
		e := s.wait(t, "a.x", "2")
		must(t, remove(t.Context(), "a.x"))
		s.wait(t, "a.x", "")
		if m, ok := s.bucket.Marker("a.x"); !ok || m.Revision != e.Revision+1 {
			t.Errorf("marker %v, %t, after revision %d", m, ok, e.Revision)
		}
	}
}

// A write needs the expected revision and the lease, and is refused otherwise.
func TestBucket_Writes(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	first, err := s.bucket.Put(t.Context(), "a.x", []byte("1"), 0)
	must(t, err)
	if _, err := s.bucket.Put(t.Context(), "a.x", []byte("2"), 0); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a second create: %v", err)
	}
	second, err := s.bucket.Put(t.Context(), "a.x", []byte("2"), first)
	must(t, err)
	if _, err := s.bucket.Put(t.Context(), "a.x", []byte("3"), first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("an update of an earlier revision: %v", err)
	}
	if err := s.bucket.Delete(t.Context(), "a.x", first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a delete of an earlier revision: %v", err)
	}
	if _, err := s.bucket.Put(t.Context(), bucket.CanaryPrefix+"x", nil, 0); err == nil {
		t.Error("a reserved key is written")
	}
	s.closed.Store(true)
	if _, err := s.bucket.Put(t.Context(), "a.x", []byte("3"), second); !errors.Is(err, errGate) {
		t.Errorf("a write without the lease: %v", err)
	}
	if err := s.bucket.Delete(t.Context(), "a.x", second); !errors.Is(err, errGate) {
		t.Errorf("a delete without the lease: %v", err)
	}
	s.wait(t, "a.x", "2")
}

// D9: a watch does not survive a server that is killed, frozen, or started without its data; the copy does.
func TestD9_TheCopySurvivesTheServer(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.put(t, "a.gone", "1")
	s.wait(t, "a.x", "1")
	s.healthy(t)

	t.Log("killed, and started with its data")
	s.server.Kill()
	eventually(t, func() error {
		if s.bucket.Absent("a.none") == nil {
			return errors.New("the copy is still trusted")
		}
		return nil
	})
	s.server.Restart()
	eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("2")); return err })
	eventually(t, func() error { return s.kv.Delete(t.Context(), "a.gone") })
	s.wait(t, "a.x", "2")
	s.wait(t, "a.gone", "")
	s.healthy(t)

	t.Log("frozen")
	s.server.Freeze()
	eventually(t, func() error {
		if s.bucket.Absent("a.none") == nil {
			return errors.New("the copy is still trusted")
		}
		return nil
	})
	s.server.Thaw()
	eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("3")); return err })
	s.wait(t, "a.x", "3")
	s.healthy(t)

	t.Log("started without its data")
	s.server.Kill()
	s.server.Empty()
	eventually(t, func() error {
		_, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "things", History: 5})
		return err
	})
	s.wait(t, "a.x", "")
	if err := s.bucket.Absent("a.x"); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("an empty bucket in place of another one proves that a key is absent: %v", err)
	}
	eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("4")); return err })
	s.wait(t, "a.x", "4")
}

// A bucket that is deleted and created again under a live watch is another one.
func TestBucket_Recreated(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	s.healthy(t)
	must(t, s.js.DeleteKeyValue(t.Context(), "things"))
	s.kv = nats.Bucket(t, s.js, "things")
	eventually(t, func() error {
		if !s.bucket.Health().Changed {
			return errors.New("the new bucket is taken for the one before")
		}
		return nil
	})
	s.put(t, "a.y", "1")
	s.wait(t, "a.y", "1")
	if err := s.bucket.Absent("a.x"); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("got %v", err)
	}
	// A marker that is seen in it counts.
	must(t, s.kv.Delete(t.Context(), "a.y"))
	s.wait(t, "a.y", "")
	if _, ok := s.bucket.Marker("a.y"); !ok {
		t.Error("the marker is not known")
	}
	// Until somebody accepts it.
	must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created}))
	eventually(t, func() error { return s.bucket.Absent("a.x") })
}

// A bucket that was restored from a backup is recognized, although its time of creation is the same, by the running process and by
// a new one.
func TestBucket_Restored(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("new process ", restarted), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.put(t, "a.x", "1")
			s.healthy(t)
			s.server.Kill()
			restore := s.server.Save()
			s.server.Restart()
			s.healthy(t)
			eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.y", []byte("1")); return err })
			s.wait(t, "a.y", "1")
			before := s.counter(t)
			eventually(t, func() error { // Some canaries that the backup lacks.
				if s.counter(t) < before+3 {
					return errors.New("no canaries")
				}
				return nil
			})
			if restarted {
				s.stop()
				must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created, Counter: s.counter(t)}))
			}
			s.server.Kill()
			restore()
			s.server.Restart()
			if restarted {
				s.process(t)
			}
			eventually(t, func() error {
				if h := s.bucket.Health(); !h.Complete || !h.Changed {
					return fmt.Errorf("the restored bucket is taken for the one before: %+v", h)
				}
				return nil
			})
			// It does not catch up, however long it runs.
			for range 5 {
				at := s.beats(t)
				eventually(t, func() error {
					if s.beats(t) == at {
						return errors.New("no canary")
					}
					return nil
				})
			}
			if err := s.bucket.Absent("a.y"); !errors.Is(err, bucket.ErrChanged) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// canary reads the canary of the stage.
func (s *stage) canary(t *testing.T) string {
	t.Helper()
	var text string
	eventually(t, func() error {
		e, err := s.kv.Get(t.Context(), bucket.CanaryPrefix+"canary.hub")
		if err == nil {
			text = string(e.Value())
		}
		return err
	})
	return text
}

func (s *stage) counter(t *testing.T) uint64 {
	t.Helper()
	var counter, beats uint64
	if _, err := fmt.Sscanf(s.canary(t), `{"counter":%d,"beat":%d}`, &counter, &beats); err != nil {
		t.Fatal(err)
	}
	return counter
}

func (s *stage) beats(t *testing.T) uint64 {
	t.Helper()
	var counter, beats uint64
	if _, err := fmt.Sscanf(s.canary(t), `{"counter":%d,"beat":%d}`, &counter, &beats); err != nil {
		t.Fatal(err)
	}
	return beats
}

// A deletion whose marker was compacted while nobody watched is found by the list, as a key that is missing.
func TestBucket_CompactedMarker(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.healthy(t)
	s.wait(t, "a.x", "1")
	s.stop()
	must(t, s.kv.Delete(t.Context(), "a.x"))
	must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	s.process(t)
	s.healthy(t)
	if _, ok := s.bucket.Marker("a.x"); ok {
		t.Error("the marker is still there: the test shows nothing")
	}
	if err := s.bucket.Absent("a.x"); err != nil {
		t.Errorf("got %v", err)
	}
}

// D3: a key that is deleted and created again has another life, also if no process saw it.
func TestD3_Lives(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprint("seen ", live), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.put(t, "a.x", "1")
			first := s.wait(t, "a.x", "1").Life
			s.put(t, "a.x", "2")
			if e := s.wait(t, "a.x", "2"); e.Life != first || !e.Includes(first) {
				t.Errorf("an update begins a life: %v, %v", first, e)
			}
			if !live {
				s.stop()
			}
			must(t, s.kv.Delete(t.Context(), "a.x"))
			s.put(t, "a.x", "3")
			if !live {
				s.process(t)
			}
			if e := s.wait(t, "a.x", "3"); e.Includes(first) || !e.Includes(e.Life) {
				t.Errorf("the new entity has the life of the earlier one: %v, %v", first, e)
			}
		})
	}
}

// All subscribers get all changes in their order, and the keys that are there.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "0")
	s.wait(t, "a.x", "0")
	var mu sync.Mutex
	var got [2][]bucket.Revision
	for i := range got {
		stop := s.bucket.Subscribe(func(c bucket.Change) {
			mu.Lock()
			defer mu.Unlock()
			got[i] = append(got[i], c.Revision)
		})
		defer stop()
	}
	const puts = 100
	for i := range puts {
		s.put(t, "a.y", fmt.Sprint(i))
	}
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		for i, all := range got {
			if len(all) != puts+1 {
				return fmt.Errorf("subscriber %d got %d changes, want %d", i, len(all), puts+1)
			}
			for j := 1; j < len(all); j++ {
				if all[j] <= all[j-1] {
					return fmt.Errorf("revision %d comes after %d", all[j], all[j-1])
				}
			}
		}
		return nil
	})
}

// The consumers of watches that have ended are gone after the inactivity threshold of a consumer, however often the bucket was lost.
func TestBucket_LeavesNoConsumers(t *testing.T) {
	t.Parallel()
	s := begin(t)
	for range 10 {
		s.healthy(t)
		s.stop()
		s.process(t)
	}
	s.healthy(t)
	stream, err := s.js.Stream(t.Context(), "KV_things")
	must(t, err)
	eventually(t, func() error {
		info, err := stream.Info(t.Context())
		if err == nil && info.State.Consumers != 1 {
			err = fmt.Errorf("%d consumers for one watch", info.State.Consumers)
		}
		return err
	})
}
