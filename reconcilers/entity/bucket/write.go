// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Put writes a value if the key has the expected revision (0: no value), and returns the new one. The error wraps
// ErrConflict, or is the Gate's. If the request may have been carried out, it is that of NATS, and the watch tells
// the result.
func (b *Bucket) Put(ctx context.Context, key string, value []byte, expected Revision) (Revision, error) {
	kv, ctx, cancel, err := b.openKey(ctx, key)
	if err != nil {
		return 0, unsent{err}
	}
	defer cancel()
	revision, err := b.update(ctx, kv, record{key: key, value: value, revision: expected})
	if expected == 0 && errors.Is(err, ErrConflict) {
		// A key with a marker has its revision. Create of package jetstream would send this write without the Gate.
		if marker, ok := b.findMarker(ctx, kv, key); ok {
			revision, err = b.update(ctx, kv, record{key: key, value: value, revision: marker})
		}
	}
	if err == nil && b.options.Disposable {
		b.changed(record{key: key, value: value, revision: revision, created: time.Now()})
	}
	return revision, err
}

// findMarker asks the stream, which may have a marker that is no longer known.
func (b *Bucket) findMarker(ctx context.Context, kv jetstream.KeyValue, key string) (Revision, bool) {
	if m, ok := b.Marker(key); ok {
		return m.Revision, true
	}
	all, err := kv.History(ctx, key)
	if err != nil || len(all) == 0 || all[len(all)-1].Operation() == jetstream.KeyValuePut {
		return 0, false
	}
	return Revision(all[len(all)-1].Revision()), true
}

// Delete deletes a key of the expected revision, not 0. The error wraps ErrConflict otherwise.
func (b *Bucket) Delete(ctx context.Context, key string, expected Revision) error {
	if expected == 0 { // NATS would delete any revision.
		return fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrConflict)
	}
	kv, ctx, cancel, err := b.openKey(ctx, key)
	if err != nil {
		return unsent{err}
	}
	defer cancel()
	_, err = b.write(key, func() (uint64, error) { return 0, kv.Delete(ctx, key, jetstream.LastRevision(uint64(expected))) })
	return err
}

// Read asks the stream. A replica may return an earlier value.
func (b *Bucket) Read(ctx context.Context, key string) (Entry, error) {
	kv, ctx, cancel, err := b.openKey(ctx, key)
	if err != nil {
		return Entry{}, err
	}
	defer cancel()
	e, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Entry{}, fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrNotFound)
	case err != nil:
		return Entry{}, fmt.Errorf("read key %s of bucket %s: %w", key, b.options.Name, err)
	}
	life := Birth{Revision: Revision(e.Revision()), Time: e.Created().UTC()}
	return Entry{Key: key, Value: e.Value(), Revision: life.Revision, Created: life.Time, Life: life}, nil
}

func (b *Bucket) openKey(ctx context.Context, key string) (jetstream.KeyValue, context.Context, context.CancelFunc, error) {
	if strings.HasPrefix(key, CanaryPrefix) {
		return nil, nil, nil, fmt.Errorf("%w: keys with %s are reserved", ErrInvalidOptions, CanaryPrefix)
	}
	js, err := b.options.JetStream()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open bucket %s: %w", b.options.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	kv, err := b.opened(ctx, js)
	if err != nil {
		cancel()
		return nil, nil, nil, fmt.Errorf("open bucket %s: %w", b.options.Name, err)
	}
	return kv, ctx, cancel, nil
}

// opened opens a bucket once, which is a request.
func (b *Bucket) opened(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	b.mu.Lock()
	kv, of := b.kv, b.kvOf
	b.mu.Unlock()
	if of == js && kv != nil {
		return kv, nil
	}
	kv, err := js.KeyValue(ctx, b.options.Name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kv, b.kvOf = kv, js
	return kv, nil
}

// update writes if the key has the record's revision; 0: the stream has nothing of the key.
func (b *Bucket) update(ctx context.Context, kv jetstream.KeyValue, r record) (Revision, error) {
	return b.write(r.key, func() (uint64, error) { return kv.Update(ctx, r.key, r.value, uint64(r.revision)) })
}

// write asks the gate right before it sends.
func (b *Bucket) write(key string, send func() (uint64, error)) (Revision, error) {
	if err := b.options.Gate(); err != nil {
		return 0, unsent{fmt.Errorf("write key %s of bucket %s: %w", key, b.options.Name, err)}
	}
	refused := &b.refused
	if strings.HasPrefix(key, CanaryPrefix) {
		refused = &b.canaryRefused
	} else if err := b.isWaiting(refused); err != nil {
		return 0, unsent{fmt.Errorf("write key %s of bucket %s: %w", key, b.options.Name, err)}
	}
	revision, err := send()
	b.answered(refused, err)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists): // Also for another revision than expected.
		return 0, fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrConflict)
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return 0, fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrNotFound)
	case err != nil:
		return 0, fmt.Errorf("write key %s of bucket %s: %w", key, b.options.Name, err)
	}
	return Revision(revision), nil
}

// unsent is an error of a write that was not sent.
type unsent struct{ error }

func (u unsent) Unwrap() error        { return u.error }
func (u unsent) Is(target error) bool { return target == ErrUnsent }

// Publish publishes a message, if the process may write. It is not confirmed, and lost without a connection.
func (b *Bucket) Publish(subject string, data []byte) error {
	js, err := b.options.JetStream()
	if err != nil {
		return err
	}
	if err := b.options.Gate(); err != nil {
		return err
	}
	return js.Conn().Publish(subject, data)
}

const refusalLasts = 5 * time.Minute

type refusal struct {
	err   error     // nil: accepted
	until time.Time // no write is sent before, so that none waits for the server
}

// isWaiting is an error while a refusal counts. One write in each beat is sent.
func (b *Bucket) isWaiting(r *refusal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if r.err != nil && now.Before(r.until) {
		return fmt.Errorf("%w: %w", ErrRefused, r.err)
	}
	r.until = now.Add(b.options.Beat)
	return nil
}

// answered: errors about one key, or the connection, say nothing of other writes. The server does not answer a write
// that is not permitted.
func (b *Bucket) answered(r *refusal, err error) {
	var answer *jetstream.APIError
	js, none := b.options.JetStream()
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyNotFound):
		err = nil
	case errors.Is(err, context.DeadlineExceeded) && none == nil && js.Conn().LastError() != nil:
		err = fmt.Errorf("%w, as without a permission; the last error of the connection: %w", err, js.Conn().LastError())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoStreamResponse):
	case err != nil && (!errors.As(err, &answer) || answer.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum):
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	*r = refusal{err: err, until: time.Now().Add(b.options.Beat)}
}
