// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// The copy follows puts, updates, deletes and purges, and knows their markers.
// Promise: initial watch: last values with markers, then the end of the list.
func TestBucket_Follows(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	for _, remove := range []func(context.Context, string, ...jetstream.KVDeleteOpt) error{s.kv.Delete, s.kv.Purge} {
		s.put(t, "a.x", "1")
		s.wait(t, "a.x", "1")
		s.put(t, "a.x", "2")
		e := s.wait(t, "a.x", "2")
		testkit.Must(t, remove(t.Context(), "a.x"))
		s.wait(t, "a.x", "")
		if m, ok := s.bucket.Marker("a.x"); !ok || m.Revision != e.Revision+1 {
			t.Errorf("marker %v, %t, after revision %d", m, ok, e.Revision)
		}
	}
}

// D9: a watch does not survive a server that is killed, frozen, or started without its data; the copy does.
// Promise: server killed and started: the watch begins again when the client is connected, within three seconds also after the fifth time in a row.
func TestD9_TheCopySurvivesTheServer(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.put(t, "a.gone", "1")
	s.wait(t, "a.x", "1")
	s.healthy(t)

	t.Log("killed, and started with its data")
	s.server.Kill()
	testkit.Eventually(t, func() error {
		if s.bucket.Absent("a.none") == nil {
			return errors.New("the copy is still trusted")
		}
		return nil
	})
	s.server.Restart()
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("2")); return err })
	testkit.Eventually(t, func() error { return s.kv.Delete(t.Context(), "a.gone") })
	s.wait(t, "a.x", "2")
	s.wait(t, "a.gone", "")
	s.healthy(t)

	t.Log("frozen")
	s.server.Freeze()
	testkit.Eventually(t, func() error {
		if s.bucket.Absent("a.none") == nil {
			return errors.New("the copy is still trusted")
		}
		return nil
	})
	s.server.Thaw()
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("3")); return err })
	s.wait(t, "a.x", "3")
	s.healthy(t)

	t.Log("started without its data")
	s.server.Kill()
	s.server.Empty()
	testkit.Eventually(t, func() error {
		_, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "things", History: 5})
		return err
	})
	s.wait(t, "a.x", "")
	testkit.ErrorIs(t, s.bucket.Absent("a.x"), bucket.ErrChanged, "an empty bucket in place of another one proves that a key is absent")
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("4")); return err })
	s.wait(t, "a.x", "4")
}

// A connection that is made again is no failure: after each of five restarts in a row the bucket is followed within three seconds.
func TestBucket_Reconnects(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	for i := range 5 {
		losses := s.bucket.Losses()
		s.server.Kill()
		s.server.Restart()
		begun := time.Now()
		testkit.Eventually(t, func() error {
			if s.bucket.Losses() == losses {
				return errors.New("the loss is not noticed yet")
			}
			return s.bucket.Absent("a.none")
		})
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("restart %d: the bucket is followed after %s", i, took)
		}
	}
}

// A key that another client has written as a subject, and that no client could delete, is counted and not followed.
// Promise: keys that no client could delete: they are counted and not followed.
func TestBucket_InvalidKeys(t *testing.T) {
	t.Parallel()
	s := begin(t)
	publish := func(subject string) {
		t.Helper()
		testkit.Must(t, testkit.Err(s.js.Publish(t.Context(), subject, []byte("1"))))
	}
	expect := func(invalid int) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if h := s.bucket.Health(); h.InvalidKeys != invalid {
				return fmt.Errorf("%d invalid keys, want %d", h.InvalidKeys, invalid)
			}
			return nil
		})
		testkit.Equal(t, s.bucket.Keys(), []string{"a.x"}, "the keys")
	}
	publish("$KV.things.listed:1")
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	publish("$KV.things.seen:1")
	expect(2)
	stream, err := s.js.Stream(t.Context(), "KV_things")
	testkit.Must(t, err)
	testkit.Must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.things.seen:1")))
	expect(1)
}

// A deletion whose marker was compacted while nobody watched is found by the list, as a key that is missing.
// Promise: compacted markers: found as missing keys by the list.
func TestBucket_CompactedMarker(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	s.healthy(t)
	s.wait(t, "a.x", "1")
	s.stop()
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	testkit.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	s.process(t)
	s.healthy(t)
	if _, ok := s.bucket.Marker("a.x"); ok {
		t.Error("the marker is still there: the test shows nothing")
	}
	testkit.NoError(t, s.bucket.Absent("a.x"))
}

// A marker that the process has seen counts after the stream has compacted it and the watch has begun again: a key that is created
// then has another life.
func TestBucket_RemembersMarkers(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "1")
	first := s.wait(t, "a.x", "1").Life
	testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
	s.wait(t, "a.x", "")
	testkit.Must(t, s.kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
	before := s.bucket.Losses()
	s.server.Kill()
	s.server.Restart()
	testkit.Eventually(t, func() error {
		if s.bucket.Losses() == before {
			return errors.New("the watch is not lost yet")
		}
		return nil
	})
	s.healthy(t)
	if _, ok := s.bucket.Marker("a.x"); !ok {
		t.Error("the marker is forgotten")
	}
	testkit.Eventually(t, func() error { _, err := s.kv.Put(t.Context(), "a.x", []byte("2")); return err })
	if e := s.wait(t, "a.x", "2"); e.Includes(first) {
		t.Errorf("the new entity has the life of the earlier one: %v, %v", first, e)
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
			testkit.Must(t, s.kv.Delete(t.Context(), "a.x"))
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

// All subscribers get the keys that are there, and the same changes in their order up to the last one. A busy machine may lose the
// watch meanwhile, so the changes that a list replaces are not counted.
// Promise: subscribers: the same changes in their order, none of them blocks the watch.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(t, "a.x", "0")
	s.wait(t, "a.x", "0")
	var mu sync.Mutex
	var got [2][]bucket.Change
	for i := range got {
		stop := s.bucket.Subscribe(func(c bucket.Change) {
			mu.Lock()
			defer mu.Unlock()
			got[i] = append(got[i], c)
		})
		defer stop()
	}
	const puts = 100
	var last bucket.Revision
	for i := range puts {
		revision, err := s.kv.Put(t.Context(), "a.y", []byte(fmt.Sprint(i)))
		testkit.Must(t, err)
		last = bucket.Revision(revision)
	}
	testkit.Eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		for i, all := range got {
			if c := all[len(all)-1]; c.Key != "a.y" || c.Revision != last {
				return fmt.Errorf("the last change of subscriber %d is %v, want revision %d", i, c, last)
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if all := got[1]; all[0].Key != "a.x" || !all[0].Listed {
		t.Errorf("the first change is %v, want a.x", all[0])
	}
	begun := slices.IndexFunc(got[0], func(c bucket.Change) bool { return c.Key == "a.y" })
	if same := got[0][begun:]; !slices.Equal(same, got[1][len(got[1])-len(same):]) {
		t.Errorf("the subscribers differ: %v and %v", got[0], got[1])
	}
	var before bucket.Revision
	for _, c := range got[0][begun:] {
		switch {
		case c.Listed:
		case c.Revision <= before:
			t.Errorf("revision %d comes after %d", c.Revision, before)
		default:
			before = c.Revision
		}
	}
}

// The consumers of watches that have ended are gone after the inactivity threshold of a consumer, however often the bucket was lost.
// Promise: consumers of lost watches: gone after their inactivity threshold.
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
	testkit.Must(t, err)
	testkit.Eventually(t, func() error {
		info, err := stream.Info(t.Context())
		if err == nil && info.State.Consumers != 1 {
			err = fmt.Errorf("%d consumers for one watch", info.State.Consumers)
		}
		return err
	})
}

// A value that expires without a marker is found by the list that such a bucket gets from time to time.
// Promise: expiry: with markers at once, without them by a list each minute.
func TestBucket_ExpiryWithoutMarkers(t *testing.T) {
	t.Parallel()
	s := begin(t)
	testkit.Must(t, s.js.DeleteKeyValue(t.Context(), "things"))
	s.stop()
	s.anchor = &anchor{}
	var err error
	s.kv, err = s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "things", History: 5, TTL: 5 * time.Second})
	testkit.Must(t, err)
	s.process(t)
	s.put(t, "a.x", "1")
	s.wait(t, "a.x", "1")
	s.wait(t, "a.x", "")
	if _, ok := s.bucket.Marker("a.x"); ok {
		t.Error("the expiry made a marker: the test shows nothing")
	}
	testkit.NoError(t, s.bucket.Absent("a.x"))
}
