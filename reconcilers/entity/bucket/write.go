// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Put writes a value if the key has the expected revision; 0 means that it has no value. It returns the new revision. The error
// wraps ErrConflict if the key has another revision, or is the error of the Gate. If the request may have been carried out although
// it failed, the error is that of NATS, and the watch tells the result.
func (b *Bucket) Put(ctx context.Context, key string, value []byte, expected Revision) (Revision, error) {
	if strings.HasPrefix(key, CanaryPrefix) {
		return 0, fmt.Errorf("%w: keys with %s are reserved", ErrInvalidOptions, CanaryPrefix)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := b.keyValue(ctx)
	if err != nil {
		return 0, fmt.Errorf("open bucket %s: %w", b.options.Name, err)
	}
	return b.write(key, func() (uint64, error) {
		if expected == 0 {
			return kv.Create(ctx, key, value)
		}
		return kv.Update(ctx, key, value, uint64(expected))
	})
}

// Delete deletes a key if it has the expected revision. A key without a value is no error.
func (b *Bucket) Delete(ctx context.Context, key string, expected Revision) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := b.keyValue(ctx)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", b.options.Name, err)
	}
	_, err = b.write(key, func() (uint64, error) { return 0, kv.Delete(ctx, key, jetstream.LastRevision(uint64(expected))) })
	return err
}

// Read reads a key from the stream. A replicated bucket may return an earlier value than the last one.
func (b *Bucket) Read(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kv, err := b.keyValue(ctx)
	if err != nil {
		return Entry{}, fmt.Errorf("open bucket %s: %w", b.options.Name, err)
	}
	e, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Entry{}, fmt.Errorf("key %s of bucket %s: %w", key, b.options.Name, ErrNotFound)
	case err != nil:
		return Entry{}, fmt.Errorf("read key %s of bucket %s: %w", key, b.options.Name, err)
	}
	life := Life{Revision: Revision(e.Revision()), Time: e.Created().UTC()}
	return Entry{Key: key, Value: e.Value(), Revision: life.Revision, Created: life.Time, Life: life}, nil
}

// putCanary writes the canary, if it has the expected revision.
func (b *Bucket) putCanary(ctx context.Context, kv jetstream.KeyValue, value []byte, expected Revision) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	key := canaryKey(b.options.Writer)
	_, err := b.write(key, func() (uint64, error) {
		if expected == 0 {
			return kv.Create(ctx, key, value)
		}
		return kv.Update(ctx, key, value, uint64(expected))
	})
	return err
}

// write asks the gate, and sends a write right after it.
func (b *Bucket) write(key string, send func() (uint64, error)) (Revision, error) {
	if err := b.options.Gate(); err != nil {
		return 0, fmt.Errorf("write key %s of bucket %s: %w", key, b.options.Name, err)
	}
	revision, err := send()
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

func encode(c canary) []byte {
	data, err := json.Marshal(c)
	if err != nil {
		return nil // Two numbers can be marshaled.
	}
	return data
}

func (b *Bucket) keyValue(ctx context.Context) (jetstream.KeyValue, error) {
	if b.options.Unavailable != nil {
		return nil, b.options.Unavailable
	}
	return b.options.JetStream.KeyValue(ctx, b.options.Name)
}
