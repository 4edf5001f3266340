// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

func (s *oneShard) expectReads(t *testing.T, adopted int, want ...string) {
	t.Helper()
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if fmt.Sprint(s.journal.reads) != fmt.Sprint(want) || s.journal.adopted != adopted {
		t.Errorf("got the reads %q and %d adoptions, want %q and %d", s.journal.reads, s.journal.adopted, want, adopted)
	}
}

// crashed is the origin of a shard whose holder has ended without a release.
func crashed(by shards.Holder) shards.Origin { return shards.Origin{Holder: by, HasEnded: true} }

// The apps that a replica was starting when it ended are suspects; a shard that was released has none, and neither has a shard
// of an earlier life of this replica, whose journal it has. The journal of an incarnation is read once for all of its shards,
// also if the first read fails; another incarnation has other records.
func TestFleet_Suspects(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	s.journal.failures = 1
	ended := crashed(shards.Holder{Name: "hub-1", Incarnation: "x"})
	var starts sync.WaitGroup
	for i := range 60 { // As of 60 shards, each with the same Clusters.
		starts.Go(func() { s.fleet.Start(t.Context(), 0, int64(i), ended) })
	}
	starts.Wait()
	first, again := cluster.JournalOf("hub-1")+" true", cluster.JournalOf("hub-1")+" true"
	s.expectReads(t, 60, first, again)
	s.fleet.Start(t.Context(), 0, 61, shards.Origin{})
	s.fleet.Start(t.Context(), 0, 62, crashed(shards.Holder{Name: "hub-0", Incarnation: "y"}))
	s.expectReads(t, 60, first, again)
	s.fleet.Start(t.Context(), 0, 63, crashed(shards.Holder{Name: "hub-1", Incarnation: "z"}))
	s.expectReads(t, 61, first, again, cluster.JournalOf("hub-1")+" true")
}

// While the journal cannot be read, a start waits for it, and ends with its context.
func TestFleet_WaitsForTheJournal(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	s.journal.failures = 1000
	ctx, cancel := context.WithCancel(t.Context())
	s.journal.failed = cancel
	s.fleet.Start(ctx, 0, 1, crashed(shards.Holder{Name: "hub-1", Incarnation: "x"}))
	s.expectReads(t, 0, cluster.JournalOf("hub-1")+" true")
	if role, _ := s.fleet.RoleOf(name, s.uid); role != cluster.RoleNone {
		t.Errorf("got the role %d after a start that was interrupted, want RoleNone", role)
	}
}

// A replica that takes a shard that another one has released to none takes over its crashes, and nothing that it was starting.
func TestFleet_ReleasedToNone(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	s.fleet.Start(t.Context(), 0, 1, shards.Origin{Holder: shards.Holder{Name: "hub-1", Incarnation: "x"}})
	s.expectReads(t, 1, cluster.JournalOf("hub-1")+" false")
}

// A replica that builds the apps of a shard takes over the crashes that the holder, which runs, has recorded of them.
func TestFleet_WarmInherits(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	done := make(chan error, 1)
	go func() {
		done <- s.fleet.Warm(t.Context(), 0, shards.Origin{Holder: shards.Holder{Name: "hub-1", Incarnation: "x"}})
	}()
	s.expectRequest(t)
	s.fleet.Prepared(s.uid)
	must(t, <-done)
	s.expectReads(t, 1, cluster.JournalOf("hub-1")+" false")
}

type unlisted struct {
	Clusters
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
		s.fleet.Start(ctx, 0, 1, shards.Origin{})
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
