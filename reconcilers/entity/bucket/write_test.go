// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// A write needs the expected revision and the lease, and is refused otherwise.
// Promise: compare-and-swap: an error for another revision, also on replicated streams and after a marker.
func TestBucket_Writes(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.healthy(t)
	first, err := s.bucket.Put(t.Context(), "a.x", []byte("1"), 0)
	testkit.Must(t, err)
	testkit.ErrorIs(t, testkit.Err(s.bucket.Put(t.Context(), "a.x", []byte("2"), 0)), bucket.ErrConflict, "a second create")
	second, err := s.bucket.Put(t.Context(), "a.x", []byte("2"), first)
	testkit.Must(t, err)
	testkit.ErrorIs(t, testkit.Err(s.bucket.Put(t.Context(), "a.x", []byte("3"), first)), bucket.ErrConflict, "an update of an earlier revision")
	testkit.ErrorIs(t, s.bucket.Delete(t.Context(), "a.x", first), bucket.ErrConflict, "a delete of an earlier revision")
	testkit.Fails(t, testkit.Err(s.bucket.Put(t.Context(), bucket.CanaryPrefix+"x", nil, 0)), "a reserved key is written")
	testkit.ErrorIs(t, s.bucket.Delete(t.Context(), "a.x", 0), bucket.ErrConflict, "a delete of any revision")
	for range 2 { // A key that was deleted is created again.
		testkit.Must(t, s.bucket.Delete(t.Context(), "a.x", second))
		s.wait(t, "a.x", "")
		second, err = s.bucket.Put(t.Context(), "a.x", []byte("2"), 0)
		testkit.Must(t, err)
		s.wait(t, "a.x", "2")
	}
	testkit.Must(t, s.bucket.Delete(t.Context(), "a.x", second)) // Also by a process that does not know the marker.
	other, err := bucket.New(bucket.Options{Name: "things", JetStream: use(s.js), Writer: "hub"})
	testkit.Must(t, err)
	second, err = other.Put(t.Context(), "a.x", []byte("2"), 0)
	testkit.Must(t, err)
	testkit.ErrorIs(t, testkit.Err(other.Put(t.Context(), "a.x", []byte("3"), 0)), bucket.ErrConflict, "a second create")
	s.closed.Store(true)
	testkit.ErrorIs(t, testkit.Err(s.bucket.Put(t.Context(), "a.x", []byte("3"), second)), errGate, "a write without the lease")
	testkit.ErrorIs(t, s.bucket.Delete(t.Context(), "a.x", second), errGate, "a delete without the lease")
	s.wait(t, "a.x", "2")
}
