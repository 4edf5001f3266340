// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"errors"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/internal/entitytest"
)

// A write needs the expected revision and the lease, and is refused otherwise.
// Promise: compare-and-swap: an error for another revision, also on replicated streams and after a marker.
func TestBucket_Writes(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	first, err := s.bucket.Put(t.Context(), "a.x", []byte("1"), 0)
	testkit.Must(t, err)
	if _, err := s.bucket.Put(t.Context(), "a.x", []byte("2"), 0); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a second create: %v", err)
	}
	second, err := s.bucket.Put(t.Context(), "a.x", []byte("2"), first)
	testkit.Must(t, err)
	if _, err := s.bucket.Put(t.Context(), "a.x", []byte("3"), first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("an update of an earlier revision: %v", err)
	}
	if err := s.bucket.Delete(t.Context(), "a.x", first); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a delete of an earlier revision: %v", err)
	}
	if _, err := s.bucket.Put(t.Context(), bucket.CanaryPrefix+"x", nil, 0); err == nil {
		t.Error("a reserved key is written")
	}
	if err := s.bucket.Delete(t.Context(), "a.x", 0); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a delete of any revision: %v", err)
	}
	for range 2 { // A key that was deleted is created again.
		testkit.Must(t, s.bucket.Delete(t.Context(), "a.x", second))
		s.wait(t, "a.x", "")
		second, err = s.bucket.Put(t.Context(), "a.x", []byte("2"), 0)
		testkit.Must(t, err)
		s.wait(t, "a.x", "2")
	}
	testkit.Must(t, s.bucket.Delete(t.Context(), "a.x", second)) // Also by a process that does not know the marker.
	other, err := bucket.New(bucket.Options{Name: "things", JetStream: entitytest.Use(s.js), Writer: "hub"})
	testkit.Must(t, err)
	second, err = other.Put(t.Context(), "a.x", []byte("2"), 0)
	testkit.Must(t, err)
	if _, err := other.Put(t.Context(), "a.x", []byte("3"), 0); !errors.Is(err, bucket.ErrConflict) {
		t.Errorf("a second create: %v", err)
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
