// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// CanaryPrefix begins the keys of canaries. No entity has such a key.
const CanaryPrefix = "_clusterfx."

// canaryKey returns the key of the canary of a hub. Two hubs that use one bucket have one each.
func canaryKey(writer string) string { return CanaryPrefix + "canary." + writer }

// canary is the value of the key.
type canary struct {
	// Counter grows with each write, but not while the bucket is Changed: otherwise a restored bucket would catch up with the
	// identity that it has lost.
	Counter uint64 `json:"counter"`
	// Beat grows with each write.
	Beat uint64 `json:"beat"`
}

func decodeCanary(value []byte) canary {
	var c canary
	if json.Unmarshal(value, &c) != nil {
		return canary{}
	}
	return c
}

// sawCanary records that the watch is alive.
func (b *Bucket) sawCanary(c canary, at Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.beat, b.beatAt = time.Now(), c, at
	b.health.Identity.Counter = c.Counter
	if !b.health.Changed {
		b.last.Counter = max(b.last.Counter, c.Counter)
	}
}

// sing writes canaries until ctx ends, if this process writes, and returns whether the bucket was replaced before that.
func (b *Bucket) sing(ctx context.Context, kv jetstream.KeyValue) (replaced bool) {
	beat := time.NewTicker(b.options.Beat)
	defer beat.Stop()
	for {
		if err := b.options.Gate(); err == nil {
			switch err := b.singOnce(ctx, kv); {
			case errors.Is(err, ErrConflict):
				if b.isReplaced(ctx) {
					return true
				}
			case err != nil && ctx.Err() == nil:
				b.options.Logger.V(1).Info("Failed to write the canary", "bucket", b.options.Name, "reason", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-beat.C:
		}
	}
}

// isReplaced reports whether a canary is refused because the stream is not the one that is watched, and not because another process of
// the hub has written one.
func (b *Bucket) isReplaced(ctx context.Context) bool {
	js, err := b.options.JetStream()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, streamOf(b.options.Name))
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	info := stream.CachedInfo()
	return !info.Created.Equal(b.health.Identity.Created) || Revision(info.State.LastSeq) < b.beatAt
}

// singOnce writes the next canary.
func (b *Bucket) singOnce(ctx context.Context, kv jetstream.KeyValue) error {
	b.mu.Lock()
	next, at := b.beat, b.beatAt
	next.Beat++
	if !b.health.Changed {
		next.Counter = max(next.Counter, b.last.Counter) + 1
	}
	b.mu.Unlock()
	return b.putCanary(ctx, kv, next, at)
}

// putCanary writes the canary, if it has the expected revision.
func (b *Bucket) putCanary(ctx context.Context, kv jetstream.KeyValue, c canary, expected Revision) error {
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = b.update(ctx, kv, record{key: canaryKey(b.options.Writer), value: value, revision: expected})
	return err
}
