// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

func (s *oneShard) expectNotes(t *testing.T, want ...string) {
	t.Helper()
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if fmt.Sprint(s.journal.notes) != fmt.Sprint(want) {
		t.Errorf("the journal was used so: %q, want %q", s.journal.notes, want)
	}
}

const ended = "hub-1-0123456789ab" // the Lease of a holder that has ended

// A replica takes over the crashes of a shard's apps before it builds or starts them, and the starts of a replica that ended
// without a release. Drain leaves the records to the next.
func TestFleet_Suspects(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	done := make(chan error, 1)
	go func() { done <- s.fleet.Warm(t.Context(), 1) }()
	s.expectRequest(t)
	s.fleet.Prepared(s.uid)
	must(t, <-done)
	s.fleet.Start(t.Context(), 1, 1, "")
	s.fleet.Start(t.Context(), 1, 2, ended)
	must(t, s.fleet.Drain(t.Context(), 1))
	s.expectNotes(t, `take 0 ""`, `take 1 ""`, `take 2 "hub-1"`, "let go")
}

// A start waits for the journal, and ends with its context; when the journal cannot be read, the apps start without it.
func TestFleet_WaitsForTheJournal(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.journal.failing = func(ctx context.Context) error {
		if until, isBounded := ctx.Deadline(); !isBounded || time.Until(until) > journalPatience {
			t.Error("the journal may take its time")
		}
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	s.fleet.Start(ctx, 1, 1, ended)
	if role, _ := s.fleet.RoleOf(name, s.uid); role != cluster.RoleNone {
		t.Errorf("got the role %d after a start that was interrupted, want RoleNone", role)
	}
	s.journal.failing = func(context.Context) error { return errors.New("the API server does not respond") }
	s.fleet.Start(t.Context(), 1, 2, ended)
	if role, _ := s.fleet.RoleOf(name, s.uid); role != cluster.RoleRunner {
		t.Errorf("got the role %d without the journal, want RoleRunner", role)
	}
}

type unlisted struct {
	cache.Cache
	tries chan struct{}
}

func (u *unlisted) List(context.Context, client.ObjectList, ...client.ListOption) error {
	u.tries <- struct{}{}
	return errors.New("the cache has ended")
}

func (u *unlisted) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// A start whose Clusters cannot be listed tries until its context ends, and no longer.
func TestFleet_StartEnds(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	u := &unlisted{tries: make(chan struct{})}
	must(t, s.fleet.Attach(s.remotes, u, s.journal))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.fleet.Start(ctx, 1, 1, "")
	}()
	for range 3 {
		<-u.tries
	}
	cancel()
	for {
		select {
		case <-u.tries: // It had begun.
		case <-done:
			return
		}
	}
}
