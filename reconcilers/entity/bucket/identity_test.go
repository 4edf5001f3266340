// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/internal/entitytest"
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
		if got := now.Continues(earlier); got != want {
			t.Errorf("%+v continues %+v: %t, want %t", now, earlier, got, want)
		}
	}
}

// A bucket that is deleted and created again under a live watch is another one.
func TestBucket_Recreated(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	s.healthy(t)
	entitytest.Must(t, s.js.DeleteKeyValue(t.Context(), "things"))
	s.kv = nats.Bucket(t, s.js, "things")
	entitytest.Eventually(t, func() error {
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
	entitytest.Must(t, s.kv.Delete(t.Context(), "a.y"))
	s.wait(t, "a.y", "")
	if _, ok := s.bucket.Marker("a.y"); !ok {
		t.Error("the marker is not known")
	}
	// An identity that was saved late is no acceptance.
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created}))
	s.waitBeats(t, 5)
	if err := s.bucket.Absent("a.x"); !errors.Is(err, bucket.ErrChanged) {
		t.Errorf("no operator has accepted it: %v", err)
	}
	// An operator accepts the bucket.
	entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created, Accepted: time.Now()}))
	entitytest.Eventually(t, func() error { return s.bucket.Absent("a.x") })
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
			entitytest.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.y", []byte("1")); return err })
			s.wait(t, "a.y", "1")
			before := s.counter(t)
			entitytest.Eventually(t, func() error { // Some canaries that the backup lacks.
				if s.counter(t) < before+3 {
					return errors.New("no canaries")
				}
				return nil
			})
			if restarted {
				s.stop()
				entitytest.Must(t, s.anchor.Save(t.Context(), bucket.Identity{Created: s.bucket.Health().Identity.Created, Counter: s.counter(t)}))
			}
			s.server.Kill()
			restore()
			s.server.Restart()
			if restarted {
				s.process(t)
			}
			entitytest.Eventually(t, func() error {
				if h := s.bucket.Health(); !h.Complete || !h.Changed {
					return fmt.Errorf("the restored bucket is taken for the one before: %+v", h)
				}
				return nil
			})
			// It does not catch up, however long it runs.
			s.waitBeats(t, 5)
			if err := s.bucket.Absent("a.y"); !errors.Is(err, bucket.ErrChanged) {
				t.Errorf("got %v", err)
			}
			s.stop()
			s.process(t)
			entitytest.Eventually(t, func() error {
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

// canary returns the counter and the beats of the canary.
func (s *stage) canary(t *testing.T) (counter, beats uint64) {
	t.Helper()
	entitytest.Eventually(t, func() error {
		e, err := s.kv.Get(t.Context(), bucket.CanaryPrefix+"canary.hub")
		if err == nil {
			_, err = fmt.Sscanf(string(e.Value()), `{"counter":%d,"beat":%d}`, &counter, &beats)
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
	entitytest.Eventually(t, func() error {
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
