// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Run follows the bucket until ctx ends and no goroutine of the Bucket runs.
func (b *Bucket) Run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		start := time.Now()
		err := b.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			continue // It is time for another list.
		}
		b.lost(err)
		switch {
		case errors.Is(err, errReconnected): // The client has a backoff of its own.
			pause = connectedEvery
		case time.Since(start) > maxPause:
			pause = minPause
		}
		if b.rest(ctx, pause) {
			pause = minPause
		} else {
			pause = min(2*pause, maxPause)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	b.Remember()
	_ = b.remember(ctx) // The process ends.
}

// rest pauses. Without a connection it returns as soon as there is one, and reports that.
func (b *Bucket) rest(ctx context.Context, pause time.Duration) (connected bool) {
	wasConnected := b.isConnected()
	end := time.After(pause + rand.N(pause/4)) //nolint:gosec // It spreads the load, and is no secret.
	tick := time.NewTicker(connectedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			if wasConnected || b.isConnected() {
				return !wasConnected
			}
		case <-tick.C:
			if !wasConnected && b.isConnected() {
				return true
			}
		}
	}
}

func (b *Bucket) isConnected() bool {
	js, err := b.options.JetStream()
	return err == nil && js.Conn().IsConnected()
}

type reading struct {
	of       *Bucket
	kv       jetstream.KeyValue
	facts    facts
	list     held
	complete bool
	canary   canary
	canaryAt Birth
	canaries sync.WaitGroup
	js       jetstream.JetStream
	heard    time.Time // last message of the list
	lose     context.CancelCauseFunc
}

// follow returns when the watch is lost; nil when values may have expired, or invalid keys been purged, without a
// marker: list again.
func (b *Bucket) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	js, err := b.options.JetStream()
	if err != nil {
		return err
	}
	reconnects := js.Conn().Stats().Reconnects
	kv, facts, err := b.open(ctx, js)
	if err != nil {
		return err
	}
	watch, err := kv.WatchAll(ctx, jetstream.IncludeHistory())
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer drain(watch)
	r := &reading{of: b, kv: kv, facts: facts, list: newHeld(), js: js, heard: time.Now(), lose: cancel}
	defer r.canaries.Wait()
	defer cancel(nil)
	alive, connected := time.NewTicker(b.options.Beat/beatsMissed), time.NewTicker(connectedEvery)
	defer alive.Stop()
	defer connected.Stop()
	begun := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-alive.C:
			if r.complete && (facts.expiresSilently || b.Health().InvalidKeys > 0) && time.Since(begun) > beatsListed*b.options.Beat {
				return nil
			}
			err = r.check(ctx)
		case <-connected.C:
			if js.Conn().Stats().Reconnects != reconnects { // The server may have forgotten the watch.
				err = errReconnected
			}
		case e, ok := <-watch.Updates():
			if err = errClosed; ok {
				err = r.take(ctx, e)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (r *reading) check(ctx context.Context) error {
	if r.of.isDeaf(r.heard, r.complete) {
		return errDeaf
	}
	if r.complete {
		return r.of.remember(ctx)
	}
	return nil
}

// take: nil follows the last value.
func (r *reading) take(ctx context.Context, e jetstream.KeyValueEntry) error {
	b := r.of
	r.heard = time.Now()
	switch {
	case e == nil:
		r.complete, r.facts.identity.Counter = true, r.canary.Counter
		if err := b.listed(ctx, r); err != nil {
			return err
		}
		r.canaries.Go(func() { r.sing(ctx) })
	case e.Key() == canaryKey(b.options.Writer):
		before, beforeAt := r.canary, r.canaryAt
		r.canary, r.canaryAt = decodeCanary(e.Value()), Birth{Revision(e.Revision()), e.Created().UTC()}
		if r.complete && (r.canary.Counter < before.Counter || r.canaryAt.Revision < beforeAt.Revision) {
			return errBackwards
		}
		if beforeAt.Revision > 0 && r.canaryAt.Time.Sub(beforeAt.Time) > beatsMissed*b.options.Beat {
			all := append(r.canary.Resumed, r.canaryAt) // The next writer has seen it, too.
			r.canary.Resumed = all[max(0, len(all)-maxResumed):]
		}
		if r.complete {
			b.sawCanary(r.canary, r.canaryAt.Revision)
		}
	case strings.HasPrefix(e.Key(), CanaryPrefix): // That of another hub.
	case !r.complete:
		r.list.apply(recordOf(e))
	default:
		b.changed(recordOf(e))
	}
	return nil
}

// drain ends a watch. Its dispatcher holds a lock while it waits for a reader, so the channel is read until it is
// closed.
func drain(watch jetstream.KeyWatcher) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range watch.Updates() {
		}
	}()
	_ = watch.Stop() // It fails if the connection is closed, which closes the channel as well.
	<-done
}

type facts struct {
	identity        Identity
	expiresSilently bool // values may expire, and no marker reports it
}

func (b *Bucket) open(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, facts, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, b.options.Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) && b.options.Create {
		kv, err = b.create(ctx, js)
	}
	if err != nil {
		return nil, facts{}, fmt.Errorf("open: %w", err)
	}
	stream, err := js.Stream(ctx, streamOf(b.options.Name))
	if err != nil {
		return nil, facts{}, fmt.Errorf("read the stream: %w", err)
	}
	info := stream.CachedInfo()
	expires := info.Config.MaxAge > 0 || info.Config.AllowMsgTTL
	return kv, facts{
		identity: Identity{Created: info.Created.UTC()}, expiresSilently: expires && info.Config.SubjectDeleteMarkerTTL == 0,
	}, nil
}

// History is how many values of a key our buckets keep: two are needed to see a deletion and a creation.
const History = 5

func (b *Bucket) create(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	_, known, err := b.earlier(ctx)
	switch {
	case err != nil:
		return nil, err
	case known:
		return nil, errVanished
	}
	if err := b.options.Gate(); err != nil {
		return nil, err
	}
	if err := Create(ctx, js, Definition{Name: b.options.Name}); err != nil && !errors.Is(err, ErrConflict) {
		return nil, err
	}
	return js.KeyValue(ctx, b.options.Name)
}

func recordOf(e jetstream.KeyValueEntry) record {
	r := record{key: e.Key(), value: e.Value(), revision: Revision(e.Revision()), created: e.Created().UTC()}
	switch e.Operation() {
	case jetstream.KeyValueDelete:
		r.op = Deleted
	case jetstream.KeyValuePurge:
		r.op = Purged
	case jetstream.KeyValuePut:
	}
	return r
}

// isDeaf: the next message of the list, or the canary, should have come.
func (b *Bucket) isDeaf(heard time.Time, complete bool) bool {
	patience := beatsMissed * b.options.Beat
	if !complete {
		return time.Since(heard) > patience+maxPause // A server that has just started takes a while.
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.seen) > patience
}

func (b *Bucket) changed(r record) {
	b.mu.Lock()
	ok := b.held.apply(r)
	b.held.forget()
	b.mu.Unlock()
	if ok {
		b.tell(Change{Key: r.key, Operation: r.op, Revision: r.revision})
	}
}

func (b *Bucket) listed(ctx context.Context, r *reading) error {
	list, f := r.list, r.facts
	earlier, known, err := b.earlier(ctx)
	if err != nil {
		return err
	}
	isChanged := known && !f.identity.Continues(earlier)
	f.identity.Accepted = earlier.Accepted
	id := f.identity
	if isChanged {
		id = earlier
	}
	// The first secondaries follow. What was saved may be a minute old, and the bucket may seem to continue that.
	if err := b.save(ctx, id); err != nil {
		return err
	}
	if isChanged {
		b.options.Logger.Info("The bucket was recreated or restored: nothing is collected until it is accepted", "bucket", b.options.Name)
	}
	b.mu.Lock()
	another := isChanged || b.hasLast && !f.identity.Continues(b.last)
	all := b.held.replace(list, another)
	now := Health{Complete: true, Changed: isChanged, Since: time.Now(), Identity: f.identity}
	if was := b.health; was.Complete && was.Changed == isChanged && was.Identity.Created.Equal(f.identity.Created) {
		now.Since = was.Since // It was listed again because values may have expired.
	}
	b.health, b.agreed = now, earlier.Accepted
	b.last, b.hasLast = id, true
	b.seen, b.beat, b.beatAt = time.Now(), r.canary, r.canaryAt.Revision // Check needs them from now on.
	b.mu.Unlock()
	b.options.Logger.Info("Followed the bucket", "bucket", b.options.Name, "keys", len(list.entries), "changed", isChanged)
	b.tell(all...)
	return nil
}

func (b *Bucket) lost(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses++
	if b.health.Err == nil || b.health.Complete {
		b.health.Since = time.Now()
		b.options.Logger.Info("Lost the bucket", "bucket", b.options.Name, "reason", err.Error())
	}
	b.health.Complete, b.health.Err = false, err
}
