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
	readTimeout = 3 * time.Second
	// readPatience bounds the delay of a start. After it no app is a suspect: the hub must not stop for its API server, and starts
	// one by one would stop thousands of Clusters for one.
	readPatience = 10 * time.Second
	// keepsEnded is for the journal of an ended incarnation; keepsLive for one that runs, whose records change seldom.
	keepsEnded = time.Minute
	keepsLive  = time.Second
)

type adopter func(isOurs func(types.UID) bool) // adopter takes over the records of our Clusters.

// legacy is an origin's journal, read once for many shards.
type legacy struct {
	turn  chan struct{} // capacity 1: held by the caller that reads
	begun time.Time
	adopt adopter // set after the read; does nothing if that has failed
}

// inherit takes over crashes of a shard's apps. Of a replica that ended without a release, starting apps are suspects.
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

// readLegacy tries for readPatience at most. It returns nil if ctx ends first.
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

func (f *Fleet) read(ctx context.Context, from shards.Origin) (adopter, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.journal.Read(ctx, cluster.JournalOf(from.Name), from.HasEnded)
}
