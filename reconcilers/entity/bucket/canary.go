// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// CanaryPrefix begins the keys of canaries, and of no entity. Each hub has one.
const CanaryPrefix = "_clusterfx."

func canaryKey(writer string) string { return CanaryPrefix + "canary." + writer }

type canary struct {
	// Counter grows with each write, but not while the bucket is Changed: a restored bucket would catch up with its
	// identity.
	Counter uint64 `json:"counter"`
	// Beat grows with each write.
	Beat uint64 `json:"beat"`
	// Resumed are the first canaries after pauses, of which a restore is one. The stream drops canaries.
	Resumed []Birth `json:"resumed,omitempty"`
}

// maxResumed bounds what each canary repeats.
const maxResumed = 16

func decodeCanary(value []byte) canary {
	var c canary
	if json.Unmarshal(value, &c) != nil {
		return canary{}
	}
	return c
}

func (b *Bucket) sawCanary(c canary, at Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.beat, b.beatAt = time.Now(), c, at
	b.health.Identity.Counter = c.Counter
	if !b.health.Changed {
		b.last.Counter = max(b.last.Counter, c.Counter)
	}
}

func (r *reading) isReplaced(ctx context.Context) bool {
	_, now, err := r.of.open(ctx, r.js)
	return err == nil && !now.identity.Created.Equal(r.facts.identity.Created)
}

// sing writes canaries while this process writes, until ctx ends or one is refused because the stream was replaced.
func (r *reading) sing(ctx context.Context) {
	b := r.of
	beat := time.NewTicker(b.options.Beat)
	defer beat.Stop()
	for {
		if err := b.options.Gate(); err == nil {
			switch err := b.singOnce(ctx, r.kv); {
			case errors.Is(err, ErrConflict) && r.isReplaced(ctx):
				r.lose(errReplaced)
				return
			case errors.Is(err, ErrConflict):
			case err != nil && ctx.Err() == nil:
				b.options.Logger.V(1).Info("Failed to write the canary", "bucket", b.options.Name, "reason", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

func (b *Bucket) singOnce(ctx context.Context, kv jetstream.KeyValue) error {
	b.mu.Lock()
	next, at := b.beat, b.beatAt
	next.Beat++
	if !b.health.Changed {
		next.Counter = max(next.Counter, b.last.Counter) + 1
	}
	b.mu.Unlock()
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = b.update(ctx, kv, record{key: canaryKey(b.options.Writer), value: value, revision: at})
	return err
}
