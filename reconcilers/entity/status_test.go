// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// A copy that is not complete does not show that a status has no part: it is read from NATS.
func TestStatus_OfAnIncompleteCopy(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	testkit.Must(t, testkit.Err(kv.Put(t.Context(), "a", []byte(`{"clusters":{"remote":{"revision":1,"ready":true}}}`))))
	b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: using(js), Writer: "hub", Disposable: true})
	testkit.Must(t, err)
	s := NewStatusStore(b) // It is not followed.
	testkit.Must(t, s.remove(t.Context(), "a", "another"))
	testkit.NoError(t, testkit.Err(kv.Get(t.Context(), "a")), "the part of another cluster")
	testkit.Must(t, s.remove(t.Context(), "a", "remote"))
	testkit.ErrorIs(t, testkit.Err(kv.Get(t.Context(), "a")), jetstream.ErrKeyNotFound, "the part is left")
	testkit.Must(t, s.set(t.Context(), "b", "remote", Part{Revision: 2, Since: time.Now()}))
	testkit.NoError(t, testkit.Err(kv.Get(t.Context(), "b")), "the part is not written")
}

// A Cluster takes its parts with it, also those that were written a moment before and that no watch has reported yet.
func TestStatus_RemoveClusterAtOnce(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: using(js), Writer: "hub", Beat: 300 * time.Millisecond, Disposable: true})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { b.Run(ctx) })
	testkit.Eventually(t, func() error {
		if !b.Health().Complete {
			return errors.New("the bucket is not complete")
		}
		return nil
	})
	s := NewStatusStore(b)
	for i := range 100 {
		key := fmt.Sprint("order-", i)
		testkit.Must(t, s.set(t.Context(), key, "remote", Part{Revision: 1, Since: time.Now()}))
		testkit.Must(t, s.RemoveCluster(t.Context(), "remote"))
		if _, err := kv.Get(t.Context(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Fatalf("the status of %s is left: %v", key, err)
		}
	}
}

// A cleanup step that runs while NATS is away is carried out when it is back, and ends with its time.
// Promise: a Cluster is deleted while NATS is away: its part of the status goes when NATS is back; those of other hubs stay.
func TestStatus_RemoveClusterTriesAgain(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	testkit.Must(t, testkit.Err(kv.Put(t.Context(), "a", []byte(`{"clusters":{"remote":{"revision":1,"ready":true}}}`))))
	var away atomic.Bool
	var asked atomic.Int64
	away.Store(true)
	b, err := bucket.New(bucket.Options{Name: "orders-status", Writer: "hub", Disposable: true, JetStream: func() (jetstream.JetStream, error) {
		asked.Add(1)
		if away.Load() {
			return nil, context.DeadlineExceeded
		}
		return js, nil
	}})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { b.Run(ctx) })
	s := NewStatusStore(b)
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	testkit.ErrorIs(t, s.RemoveCluster(short, "remote"), bucket.ErrNotComplete)
	done := make(chan error, 1)
	running.Go(func() { done <- s.RemoveCluster(ctx, "remote") })
	before := asked.Load()
	testkit.Eventually(t, func() error {
		if asked.Load() < before+2 {
			return errors.New("no try is over yet")
		}
		return nil
	})
	away.Store(false)
	testkit.Must(t, <-done)
	testkit.ErrorIs(t, testkit.Err(kv.Get(t.Context(), "a")), jetstream.ErrKeyNotFound, "the part is left")
}

// The parts of Clusters that no longer exist go, and no others: neither those of another hub, nor that of a Cluster that is created
// meanwhile.
func TestStatus_RemoveGone(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: using(js), Writer: "hub", Disposable: true})
	testkit.Must(t, err)
	s := NewStatusStore(b)
	set := func(cluster, hub string) {
		t.Helper()
		testkit.Must(t, s.set(t.Context(), "a", cluster, Part{Revision: 1, Hub: hubDigest(hub)}))
	}
	set("gone", "hub")
	set("exists", "hub")
	set("gone", "hub")
	set("of-another", "another")
	testkit.Must(t, s.RemoveGone(t.Context(), "hub", func(context.Context) (map[string]bool, error) {
		set("new", "hub")
		return map[string]bool{"exists": true}, nil
	}))
	errAway := errors.New("the hub's API server is away")
	testkit.ErrorIs(t, s.RemoveGone(t.Context(), "hub", func(context.Context) (map[string]bool, error) { return nil, errAway }), errAway)
	e, err := kv.Get(t.Context(), "a")
	testkit.Must(t, err)
	left := slices.Sorted(maps.Keys(DecodeStatus(e.Value()).Clusters))
	if want := []string{"exists", "new", "of-another"}; !slices.Equal(left, want) {
		t.Errorf("the parts of %q are left, want %q", left, want)
	}
}

func using(js jetstream.JetStream) func() (jetstream.JetStream, error) {
	return func() (jetstream.JetStream, error) { return js, nil }
}
