// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/internal/entitytest"
)

// A copy that is not complete does not show that a status has no part: it is read from NATS.
func TestStatus_OfAnIncompleteCopy(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	_, err := kv.Put(t.Context(), "a", []byte(`{"clusters":{"remote":{"revision":1,"ready":true}}}`))
	entitytest.Must(t, err)
	b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: entitytest.Use(js), Writer: "hub"})
	entitytest.Must(t, err)
	s := NewStatusStore(b) // It is not followed.
	entitytest.Must(t, s.remove(t.Context(), "a", "another"))
	if _, err := kv.Get(t.Context(), "a"); err != nil {
		t.Errorf("the part of another cluster: %v", err)
	}
	entitytest.Must(t, s.remove(t.Context(), "a", "remote"))
	if _, err := kv.Get(t.Context(), "a"); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("the part is left: %v", err)
	}
	entitytest.Must(t, s.set(t.Context(), "b", "remote", Part{Revision: 2, Since: time.Now()}))
	if _, err := kv.Get(t.Context(), "b"); err != nil {
		t.Errorf("the part is not written: %v", err)
	}
}

// A Cluster takes its parts with it, also those that were written a moment before and that no watch has reported yet.
func TestStatus_RemoveClusterAtOnce(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "orders-status")
	b, err := bucket.New(bucket.Options{Name: "orders-status", JetStream: entitytest.Use(js), Writer: "hub", Beat: entitytest.Beat})
	entitytest.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { b.Run(ctx) })
	entitytest.Eventually(t, func() error {
		if !b.Health().Complete {
			return errors.New("the bucket is not complete")
		}
		return nil
	})
	s := NewStatusStore(b)
	for i := range 100 {
		key := fmt.Sprint("order-", i)
		entitytest.Must(t, s.set(t.Context(), key, "remote", Part{Revision: 1, Since: time.Now()}))
		entitytest.Must(t, s.RemoveCluster(t.Context(), "remote"))
		if _, err := kv.Get(t.Context(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Fatalf("the status of %s is left: %v", key, err)
		}
	}
	if len(s.ahead) > 0 {
		t.Errorf("the store remembers %v, which is deleted", s.ahead)
	}
}
