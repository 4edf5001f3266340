// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"iter"
	"time"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Entity is a primary: a value under a key of a bucket.
type Entity[T any] struct {
	Key   string
	Value T
	// Err says why the value cannot be decoded; Value is incomplete then. The entity exists nevertheless.
	Err error
	// Revision is the value's, Created its time.
	Revision bucket.Revision
	Created  time.Time
	// Life differs after an entity was deleted and created again.
	Life bucket.Birth

	raw bucket.Entry
}

// Store has the entities of a bucket as values of T. Reads come from memory.
type Store[T any] struct {
	bucket *bucket.Bucket
	codec  Codec[T]
}

// NewStore returns a store of a bucket that natshub.Connection.Follow returns, or that the caller keeps up to date
// with Run.
func NewStore[T any](b *bucket.Bucket, c Codec[T]) *Store[T] { return &Store[T]{bucket: b, codec: c} }

// Bucket returns the bucket.
func (s *Store[T]) Bucket() *bucket.Bucket { return s.bucket }

// Get returns an entity from memory, which may lack one of a moment ago. The error wraps bucket.ErrNotFound if there
// is none. If it wraps bucket.ErrNotComplete or bucket.ErrChanged the entity may exist: a reconciler must return it,
// and must not delete anything because of it.
func (s *Store[T]) Get(key string) (*Entity[T], error) {
	e, err := s.bucket.Find(key)
	if err != nil {
		return nil, err
	}
	return s.decode(e), nil
}

func (s *Store[T]) decode(e bucket.Entry) *Entity[T] {
	value, err := s.codec.Decode(e.Value)
	return &Entity[T]{Key: e.Key, Value: value, Err: err, Revision: e.Revision, Created: e.Created, Life: e.Life, raw: e}
}

// List returns all entities, in no order; before the first an error of Get if there may be others.
func (s *Store[T]) List() iter.Seq2[*Entity[T], error] {
	return func(yield func(*Entity[T], error) bool) {
		keys, err := s.bucket.List()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, key := range keys {
			if e, err := s.Get(key); err == nil && !yield(e, nil) {
				return
			}
		}
	}
}

// Create returns the new revision. The error wraps bucket.ErrConflict if the key exists.
func (s *Store[T]) Create(ctx context.Context, key string, value T) (bucket.Revision, error) {
	data, err := s.codec.Encode(value, nil)
	if err != nil {
		return 0, err
	}
	return s.bucket.Put(ctx, key, data, 0)
}

// Update replaces the value of an entity, as from Get or List, and returns the new revision. Fields that T lacks
// stay. The error wraps bucket.ErrConflict if the entity has changed since.
func (s *Store[T]) Update(ctx context.Context, e *Entity[T]) (bucket.Revision, error) {
	data, err := s.codec.Encode(e.Value, e.raw.Value)
	if err != nil {
		return 0, err
	}
	return s.bucket.Put(ctx, e.Key, data, e.Revision)
}

// Delete deletes an entity of this revision. The error wraps bucket.ErrConflict otherwise.
func (s *Store[T]) Delete(ctx context.Context, key string, revision bucket.Revision) error {
	return s.bucket.Delete(ctx, key, revision)
}
