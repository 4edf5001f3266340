// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Identity tells a bucket from one that was created in its place, or restored.
type Identity struct {
	// Created is the stream's. A restored stream keeps it.
	Created time.Time `json:"created"`
	// Counter of the canary only grows.
	Counter uint64 `json:"counter"`
	// Accepted is when an operator accepted the bucket with this identity, also with a lower counter; zero if none
	// was needed.
	Accepted time.Time `json:"accepted,omitzero"`
}

// Continues reports whether the bucket is the one of an earlier identity.
func (i Identity) Continues(earlier Identity) bool {
	return i.Created.Equal(earlier.Created) && i.Counter >= earlier.Counter
}

// noCounter is a counter that no bucket continues. It is saved when a mark proves a restore: the canary does not if
// the Anchor was restored, too.
const noCounter = math.MaxUint64

// IsOfBefore reports whether a mark's Life is of the bucket before this one, although the key has a value: it is
// later than the value's revision.
func (b *Bucket) IsOfBefore(l Birth, at Revision) bool {
	h := b.Health()
	return l.Revision > at && (h.Changed || !l.Time.After(h.Identity.Accepted))
}

// Check returns an error if a mark's Life proves a restore, and makes the bucket Changed: the stream has not come to
// the revision, or has another time there, or came there after a pause of the canary that ended after the Life. A Life from before
// the acceptance proves nothing.
func (b *Bucket) Check(ctx context.Context, l Birth) error {
	id := b.Health().Identity
	if !l.Time.After(id.Accepted) {
		return nil
	}
	switch found, last, err := b.messageAt(ctx, l.Revision); {
	case err != nil:
		return err
	case found == nil && l.Revision <= last && !b.isReused(l), found != nil && found.Time.Equal(l.Time):
		return nil // The stream has it, or has dropped it.
	}
	id.Counter = noCounter
	if err := b.save(ctx, id); err != nil {
		return err
	}
	b.options.Logger.Info("The bucket was restored: it lacks a value of which an object was made. Nothing is collected until it is accepted",
		"bucket", b.options.Name, "life", l.String())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.hasLast, b.health.Changed, b.health.Since = id, true, true, time.Now()
	return fmt.Errorf("bucket %s: %w", b.options.Name, ErrChanged)
}

// isReused reports whether a revision that the stream has dropped was another's: a quiet bucket drops little but canaries. If the
// server's clock was set back, it may hold deletes until the bucket is accepted.
func (b *Bucket) isReused(l Birth) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.beat.Resumed, func(at Birth) bool {
		return at.Revision <= l.Revision && at.Time.After(l.Time)
	})
}

// Proves reports whether a client has written a marker. Markers that the stream writes for old values are no
// evidence: a bucket with another age loses all values at once. It may send a request.
func (b *Bucket) Proves(ctx context.Context, m Marker) (bool, error) {
	if !m.purged {
		return true, nil
	}
	found, _, err := b.messageAt(ctx, m.Revision)
	return found != nil && found.Header.Get(jetstream.MarkerReasonHeader) == "", err
}

func (b *Bucket) messageAt(ctx context.Context, at Revision) (found *jetstream.RawStreamMsg, last Revision, err error) {
	js, err := b.options.JetStream()
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, streamOf(b.options.Name))
	if err != nil {
		return nil, 0, fmt.Errorf("read the stream of bucket %s: %w", b.options.Name, err)
	}
	found, err = stream.GetMsg(ctx, uint64(at))
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, fmt.Errorf("read revision %d of bucket %s: %w", at, b.options.Name, err)
	}
	return found, Revision(stream.CachedInfo().State.LastSeq), nil
}

// Anchor remembers the identity of a bucket outside of NATS.
type Anchor interface {
	// Load returns what was saved last, and false for nothing.
	Load(ctx context.Context) (Identity, bool, error)
	// Save replaces the identity. It fails if the one that is there was accepted later.
	Save(ctx context.Context, id Identity) error
}

// earlier is the highest identity of the Anchor and this process, unless an operator has accepted another.
func (b *Bucket) earlier(ctx context.Context) (Identity, bool, error) {
	b.mu.Lock()
	last, known := b.last, b.hasLast
	b.mu.Unlock()
	if b.options.Disposable {
		return Identity{}, false, nil
	}
	if b.options.Anchor == nil {
		return last, known, nil
	}
	saved, ok, err := b.load(ctx)
	switch {
	case err != nil:
		return Identity{}, false, err
	case !ok:
		return last, known, nil
	case known && last.Accepted.Equal(saved.Accepted) && last.Continues(saved):
		return last, true, nil
	}
	return saved, true, nil
}

// Remember has the identity saved at once, as after secondaries were collected.
func (b *Bucket) Remember() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = time.Time{}
}

func (b *Bucket) remember(ctx context.Context) error {
	b.mu.Lock()
	known, isChanged, due, agreed := b.hasLast, b.health.Changed, time.Since(b.saved) >= saveEvery, b.agreed
	b.mu.Unlock()
	if b.options.Anchor == nil || !known || !isChanged && (!due || b.options.Gate() != nil) {
		return nil //nolint:nilerr // A process that may not write saves nothing.
	}
	saved, ok, err := b.load(ctx)
	b.mu.Lock()
	id, now := b.last, b.health.Identity
	b.mu.Unlock()
	switch {
	case ok && saved.Accepted.After(agreed) && now.Continues(saved):
		b.accepted(saved)
	case isChanged: // What was saved may be a minute old, so only an acceptance counts.
		return nil
	case ok && !id.Continues(saved):
		return errElsewhere
	case err == nil:
		err = b.save(ctx, id)
	}
	if err != nil && !errors.Is(err, context.Canceled) { // The hub ends.
		b.options.Logger.Error(err, "Failed to save the identity of the bucket", "bucket", b.options.Name)
	}
	return nil
}

func (b *Bucket) load(ctx context.Context) (Identity, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id, ok, err := b.options.Anchor.Load(ctx)
	if err != nil {
		return id, false, fmt.Errorf("read the identity of bucket %s that was saved: %w", b.options.Name, err)
	}
	return id, ok, nil
}

func (b *Bucket) save(ctx context.Context, id Identity) error {
	if b.options.Anchor == nil || b.options.Gate() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := b.options.Anchor.Save(ctx, id); err != nil {
		return fmt.Errorf("save the identity of bucket %s: %w", b.options.Name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = time.Now()
	return nil
}

func (b *Bucket) accepted(id Identity) {
	b.mu.Lock()
	b.health.Changed, b.health.Since, b.health.Identity.Accepted = false, time.Now(), id.Accepted
	b.last, b.hasLast, b.agreed = id, true, id.Accepted
	b.mu.Unlock()
	b.options.Logger.Info("The bucket is accepted", "bucket", b.options.Name)
	var all []Change
	for _, key := range b.Keys() {
		all = append(all, Change{Key: key, Operation: Put, Listed: true})
	}
	b.tell(all...)
}
