// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

const (
	// readTimeout bounds one read of the journal of another replica.
	readTimeout = 3 * time.Second
	// readPatience bounds all tries to read it, and so the delay of a start. A hub must not stop starting apps because its API
	// server is not available: after that, the apps start without a suspicion. To start all of them as suspects, one after the
	// other, would keep thousands of Clusters from work because one may be at fault.
	readPatience = 10 * time.Second
	// keepsEnded is how long the journal of an incarnation that has ended is kept, for all of its shards, and keepsLive that of
	// one that runs: its records change seldom.
	keepsEnded = time.Minute
	keepsLive  = time.Second
)

// adopter takes over the records of the Clusters for which isOurs returns true.
type adopter func(isOurs func(types.UID) bool)

// legacy is what the journal of an origin has, which is read once for many shards.
type legacy struct {
	turn  chan struct{} // capacity 1: held by the caller that reads
	begun time.Time
	adopt adopter // set after the read; does nothing if that has failed
}

// inherit takes over the crashes that the journal of another replica has of the apps of a shard. If that replica has ended without
// a release, the apps that it was starting are suspects, too.
func (f *Fleet) inherit(ctx context.Context, shard int, from shards.Origin) {
	if from.Name == "" || from.Name == f.name { // This replica has its own journal.
		return
	}
	one := f.legacyOf(from)
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-one.turn }()
	if one.adopt == nil {
		one.adopt = f.readLegacy(ctx, from)
	}
	if one.adopt != nil {
		one.adopt(func(uid types.UID) bool { return shards.Of(uid, f.count) == shard })
	}
}

// legacyOf returns what is known of an origin.
func (f *Fleet) legacyOf(from shards.Origin) *legacy {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, old := range f.legacies {
		keeps := keepsLive
		if other.HasEnded {
			keeps = keepsEnded
		}
		if time.Since(old.begun) > keeps {
			delete(f.legacies, other)
		}
	}
	if one := f.legacies[from]; one != nil {
		return one
	}
	one := &legacy{turn: make(chan struct{}, 1), begun: time.Now()}
	f.legacies[from] = one
	return one
}

// readLegacy reads an origin until that succeeds, for readPatience at most. It returns nil if ctx ends first.
func (f *Fleet) readLegacy(ctx context.Context, from shards.Origin) adopter {
	late := time.Now().Add(readPatience)
	for {
		adopt, err := f.read(ctx, from)
		switch {
		case err == nil:
			return adopt
		case ctx.Err() != nil:
			return nil
		case time.Now().After(late):
			f.log.Error(err, "Failed to read with which apps another replica crashed; they start without a suspicion",
				"from", from.Name, "within", readPatience.String())
			return func(func(types.UID) bool) {}
		}
		pause(ctx, retry)
	}
}

// read reads an origin once.
func (f *Fleet) read(ctx context.Context, from shards.Origin) (adopter, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.journal.Read(ctx, cluster.JournalOf(from.Name), from.HasEnded)
}
