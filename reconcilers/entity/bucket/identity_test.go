// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// An identity continues one with the same time of creation and no higher counter, and no other one.
func TestIdentity_Continues(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	earlier := bucket.Identity{Created: created, Counter: 5}
	for now, want := range map[bucket.Identity]bool{
		earlier:                                                    true,
		{Created: created, Counter: 6}:                             true,
		{Created: created, Counter: 4}:                             false,
		{Created: created.Add(1), Counter: 5}:                      false,
		{Created: created.Add(1), Counter: 6}:                      false,
		{Created: created.In(time.FixedZone("X", 60)), Counter: 5}: true,
	} {
		testkit.Equal(t, now.Continues(earlier), want, now, "continues", earlier)
	}
}

// A bucket that is deleted and created again under a live watch is another one.
// Promise: bucket deleted and created under a live watch: found by the canary that is refused, within ten seconds.
func TestBucket_Recreated(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	s.healthy(t)
	testkit.Must(t, s.js.DeleteKeyValue(t.Context(), "things"))
	s.kv = nats.Bucket(t, s.js, "things")
	testkit.Eventually(t, func() error {
		if !s.bucket.Health().Changed {
			return errors.New("the new bucket is taken for the one before")
		}
		return nil
	})
	s.put(t, "a.y", "1")
	s.wait(t, "a.y", "1")
	testkit.ErrorIs(t, s.bucket.Absent("a.x"), bucket.ErrChanged)
	// A marker that is seen in it counts.
	testkit.Must(t, s.kv.Delete(t.Context(), "a.y"))
	s.wait(t, "a.y", "")
	if _, ok := s.bucket.Marker("a.y"); !ok {
		t.Error("the marker is not known")
	}
	// An identity that was saved late is no acceptance.
	testkit.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created}))
	s.waitBeats(t, 5)
	testkit.ErrorIs(t, s.bucket.Absent("a.x"), bucket.ErrChanged, "no operator has accepted it")
	// An operator accepts the bucket.
	testkit.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created, Accepted: time.Now()}))
	testkit.Eventually(t, func() error { return s.bucket.Absent("a.x") })
}

// The canary that is refused shows that a bucket was replaced under a live watch: within ten seconds, and not after three beats.
func TestBucket_RefusedCanary(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	nats.Bucket(t, js, "things")
	b, err := bucket.New(bucket.Options{Name: "things", JetStream: use(js), Writer: "hub"})
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
	testkit.Eventually(t, func() error {
		if b.Health().Identity.Counter == 0 {
			return errors.New("no canary is seen yet")
		}
		return nil
	})
	testkit.Must(t, js.DeleteKeyValue(t.Context(), "things"))
	nats.Bucket(t, js, "things")
	begun := time.Now()
	waitChanged(t, b)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the new bucket is noticed after %s", took)
	}
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
			testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.y", []byte("1")); return err })
			s.wait(t, "a.y", "1")
			before := s.counter(t)
			testkit.Eventually(t, func() error { // Some canaries that the backup lacks.
				if s.counter(t) < before+3 {
					return errors.New("no canaries")
				}
				return nil
			})
			if restarted {
				s.stop()
				testkit.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created, Counter: s.counter(t)}))
			}
			s.server.Kill()
			restore()
			s.server.Restart()
			if restarted {
				s.process(t)
			}
			testkit.Eventually(t, func() error {
				if h := s.bucket.Health(); !h.Complete || !h.Changed {
					return fmt.Errorf("the restored bucket is taken for the one before: %+v", h)
				}
				return nil
			})
			// It does not catch up, however long it runs.
			s.waitBeats(t, 5)
			testkit.ErrorIs(t, s.bucket.Absent("a.y"), bucket.ErrChanged)
			s.stop()
			s.process(t)
			testkit.Eventually(t, func() error {
				if h := s.bucket.Health(); !h.Complete {
					return fmt.Errorf("the next process does not follow it: %+v", h)
				}
				return nil
			})
			if h := s.bucket.Health(); !h.Changed {
				t.Errorf("the next process takes the restored bucket for the one before: %+v", h)
			}
		})
	}
}

// What a process knows of markers and lives is not that of a bucket which was restored and accepted before the process has seen it: an
// update under a key counts, whose revision is below that of a marker of before.
// Promise: a bucket is restored and accepted before the hub has seen it: what the hub knew of markers and lives is forgotten.
func TestBucket_AcceptedUnseen(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.healthy(t)
	s.server.Kill()
	restore := s.server.Save()
	s.server.Restart()
	s.healthy(t)
	s.waitBeats(t, 10)
	testkit.Eventually(t, func() error { return s.kv.Delete(t.Context(), "a.x") })
	s.wait(t, "a.x", "")
	id := s.bucket.Health().Identity
	id.Counter, id.Accepted = 0, time.Now()
	s.server.Kill()
	testkit.Must(t, s.anchor.Save(t.Context(), id))
	restore()
	s.server.Restart()
	s.wait(t, "a.x", "1")
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("2")); return err })
	if e := s.wait(t, "a.x", "2"); s.bucket.Health().Changed || e.Marker() != (bucket.Marker{}) {
		t.Errorf("the accepted bucket has the marker of before: %v, %+v", e.Marker(), s.bucket.Health())
	}
}

// The identity is saved before an entity is announced, and at an orderly end: a secondary is never made of a bucket that the next
// process does not recognize. Nothing is saved without the lease.
// Promise: the hub ends before a minute is over: the identity of the bucket is saved before the first object, after each collection and at the end.
func TestBucket_SavesTheIdentity(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	s.stop()
	s.anchor = &anchor{}
	s.process(t)
	heard := make(chan bool, 100)
	s.bucket.Subscribe(func(bucket.Change) {
		_, known, _ := s.anchor.Load(t.Context())
		heard <- known
	})
	if !<-heard {
		t.Error("an entity is known before the identity of the bucket is saved")
	}
	s.healthy(t)
	s.waitBeats(t, 5)
	before := s.counter(t)
	testkit.Eventually(t, func() error {
		if seen := s.bucket.Health().Identity.Counter; seen < before {
			return fmt.Errorf("the canary %d is not seen yet: %d", before, seen)
		}
		return nil
	})
	s.stop()
	saved, _, err := s.anchor.Load(t.Context())
	testkit.Must(t, err)
	if saved.Counter < before {
		t.Errorf("the counter %d is saved at the end, want %d or more", saved.Counter, before)
	}
	s.process(t)
	s.healthy(t)
	s.waitBeats(t, 5)
	s.closed.Store(true)
	saved, _, err = s.anchor.Load(t.Context())
	testkit.Must(t, err)
	s.stop()
	if now, _, _ := s.anchor.Load(t.Context()); now != saved {
		t.Errorf("%+v is saved without the lease, want %+v", now, saved)
	}
}

// A mark proves that the bucket was restored if the stream has not come to its revision, has another value there, or has dropped one that
// came after a later pause of the canary. Then the bucket is Changed, for this process, for another one that runs, and for the next one,
// until it is accepted.
func TestBucket_Check(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(l, dropped bucket.Birth) bucket.Birth{
		"a revision that the stream has not come to": func(l, _ bucket.Birth) bucket.Birth { l.Revision += 1 << 20; return l },
		"a revision with another value":              func(l, _ bucket.Birth) bucket.Birth { l.Time = l.Time.Add(time.Nanosecond); return l },
		"a revision that the stream has used again": func(_, dropped bucket.Birth) bucket.Birth {
			dropped.Time = dropped.Time.Add(-time.Hour)
			return dropped
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.waitBeats(t, 1)
			s.stop()
			<-time.After(4 * beat) // a pause, by the clock of the server
			s.process(t)
			s.waitBeats(t, bucket.History+1)
			s.put(t, "a.x", "1")
			dropped := s.wait(t, "a.x", "1").Life
			s.stop() // The next process reads of the pause.
			s.process(t)
			s.healthy(t)
			other := &stage{server: s.server, js: s.js, kv: s.kv, anchor: s.anchor}
			other.process(t)
			other.healthy(t)
			testkit.Must(t, s.bucket.Check(t.Context(), dropped))
			for range bucket.History {
				s.put(t, "a.x", "2")
			}
			testkit.Must(t, s.bucket.Check(t.Context(), dropped))
			e := s.wait(t, "a.x", "2")
			l := forge(bucket.Birth{Revision: e.Revision, Time: e.Created}, dropped)
			if err := s.bucket.Check(t.Context(), l); !errors.Is(err, bucket.ErrChanged) {
				t.Fatalf("got %v", err)
			}
			testkit.ErrorIs(t, s.bucket.Absent("a.y"), bucket.ErrChanged)
			other.bucket.Remember() // Else it looks within a minute.
			waitChanged(t, other.bucket)
			other.stop()
			s.stop()
			s.process(t)
			waitChanged(t, s.bucket)
			id, _, err := s.anchor.Load(t.Context())
			testkit.Must(t, err)
			id.Counter, id.Accepted = s.bucket.Health().Identity.Counter, time.Now()
			testkit.Must(t, s.anchor.Save(t.Context(), id))
			testkit.Eventually(t, func() error { return s.bucket.Absent("a.y") })
			testkit.Must(t, s.bucket.Check(t.Context(), l)) // It is older than the acceptance.
		})
	}
}

func waitChanged(t *testing.T, b *bucket.Bucket) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if h := b.Health(); !h.Complete || !h.Changed {
			return fmt.Errorf("the bucket is taken for the one before: %+v", h)
		}
		return nil
	})
}

func (s *stage) canary(t *testing.T) (counter, beats uint64) {
	t.Helper()
	testkit.Eventually(t, func() error {
		e, err := s.kv.Get(t.Context(), bucket.CanaryPrefix+"canary.hub")
		if err == nil {
			_, err = fmt.Sscanf(string(e.Value()), `{"counter":%d,"beat":%d`, &counter, &beats)
		}
		return err
	})
	return counter, beats
}

func (s *stage) counter(t *testing.T) uint64 {
	t.Helper()
	counter, _ := s.canary(t)
	return counter
}

// waitBeats waits for a number of canaries.
func (s *stage) waitBeats(t *testing.T, n uint64) {
	t.Helper()
	begun := s.beats(t)
	testkit.Eventually(t, func() error {
		if now := s.beats(t); now < begun+n {
			return fmt.Errorf("%d canaries, want %d", now-begun, n)
		}
		return nil
	})
}

func (s *stage) beats(t *testing.T) uint64 {
	t.Helper()
	_, beats := s.canary(t)
	return beats
}
