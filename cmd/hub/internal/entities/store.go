// SPDX-License-Identifier: Apache-2.0

package entities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Store is a bucket with entities, and the bucket with their status if there is one.
type Store struct {
	bucket     string
	kv, status jetstream.KeyValue
	// Check validates a value before it is written. Default: none.
	Check func(value []byte) error
}

// Open opens a bucket. The error wraps bucket.ErrNotFound if it does not exist.
func Open(ctx context.Context, js jetstream.JetStream, name string) (*Store, error) {
	kv, err := js.KeyValue(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrInvalidBucketName):
		return nil, fmt.Errorf("bucket %s: %w", name, bucket.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	s := &Store{bucket: name, kv: kv}
	// The status is an addition: a user who may not read it, or a bucket without one, sees the entities.
	if status, err := js.KeyValue(ctx, entity.StatusBucket(name)); err == nil {
		s.status = status
	}
	return s, nil
}

// Get returns the entity under a key. The error wraps bucket.ErrNotFound if there is none.
func (s *Store) Get(ctx context.Context, key string) (Document, error) {
	if err := checkKey(key); err != nil {
		return Document{}, err
	}
	e, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Document{}, fmt.Errorf("entity %s of bucket %s: %w", key, s.bucket, bucket.ErrNotFound)
	}
	if err != nil {
		return Document{}, fmt.Errorf("read entity %s of bucket %s: %w", key, s.bucket, err)
	}
	d := newDocument(key, e.Revision(), e.Created(), e.Value())
	if s.status == nil {
		return d, nil
	}
	if e, err := s.status.Get(ctx, key); err == nil {
		d.Status = statusOf(e.Value())
	}
	return d, nil
}

// statusOf returns the status in a value, nil if it is none.
func statusOf(value []byte) *entity.Status {
	var status entity.Status
	if json.Unmarshal(value, &status) != nil || len(status.Clusters) == 0 {
		return nil
	}
	return &status
}

// List returns all entities, sorted by key.
func (s *Store) List(ctx context.Context) ([]Document, error) {
	found, err := all(ctx, s.kv)
	if err != nil {
		return nil, fmt.Errorf("list bucket %s: %w", s.bucket, err)
	}
	statuses := map[string]*entity.Status{}
	if s.status != nil {
		known, err := all(ctx, s.status)
		if err != nil {
			return nil, fmt.Errorf("list bucket %s: %w", entity.StatusBucket(s.bucket), err)
		}
		for _, e := range known {
			statuses[e.Key()] = statusOf(e.Value())
		}
	}
	list := make([]Document, 0, len(found))
	for _, e := range found {
		d := newDocument(e.Key(), e.Revision(), e.Created(), e.Value())
		d.Status = statuses[d.Key]
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Document) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// all returns the values of a bucket.
func all(ctx context.Context, kv jetstream.KeyValue) ([]jetstream.KeyValueEntry, error) {
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Stop() }() // It fails if the connection is closed.
	var list []jetstream.KeyValueEntry
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return nil, errEnded
			case e == nil:
				return list, nil
			case !strings.HasPrefix(e.Key(), bucket.CanaryPrefix):
				list = append(list, e)
			}
		}
	}
}

var (
	errEnded    = errors.New("the server has ended the watch")
	errKey      = errors.New("a key has letters, digits, and - / _ = . with single dots inside only")
	errReserved = errors.New("keys with " + bucket.CanaryPrefix + " belong to the hub")
)

// validKey is the pattern of keys of NATS.
var validKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

func checkKey(key string) error {
	switch {
	case !validKey.MatchString(key):
		return fmt.Errorf("key %q: %w", key, errKey)
	case strings.HasPrefix(key, bucket.CanaryPrefix):
		return fmt.Errorf("key %q: %w", key, errReserved)
	}
	return nil
}

// Write says how an entity is written.
type Write struct {
	// Revision is that which the entity has to have, 0 if it must not exist. Default: nil, the revision that is read.
	Revision *uint64
	// DryRun writes nothing.
	DryRun bool
}

// Result is the result of a write.
type Result struct {
	// Done is created, updated, unchanged or deleted.
	Done string
	// Revision is that of the entity afterwards; 0 in a dry run.
	Revision uint64
}

// Verify returns an error about a document that cannot be written.
func (s *Store) Verify(d Document) error {
	err := errors.Join(checkKey(d.Key), d.check())
	if err == nil && s.Check != nil {
		err = s.Check(d.Value)
	}
	if err != nil {
		return fmt.Errorf("entity %s: %w", d.Key, err)
	}
	return nil
}

// Apply creates or replaces an entity. The error wraps bucket.ErrConflict if the entity has another revision than expected.
func (s *Store) Apply(ctx context.Context, d Document, w Write) (Result, error) {
	if err := s.Verify(d); err != nil {
		return Result{}, err
	}
	if w.Revision == nil && d.Revision > 0 {
		w.Revision = &d.Revision
	}
	now, err := s.Get(ctx, d.Key)
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return Result{}, err
	}
	if err := s.expect(w, now, d.Key); err != nil {
		return Result{}, err
	}
	result := Result{Done: "created"}
	switch {
	case now.Revision > 0 && entity.SameJSON(now.Value, d.Value):
		return Result{Done: "unchanged", Revision: now.Revision}, nil
	case now.Revision > 0:
		result.Done = "updated"
	}
	if w.DryRun {
		return result, nil
	}
	if now.Revision > 0 {
		result.Revision, err = s.kv.Update(ctx, d.Key, d.Value, now.Revision)
	} else {
		result.Revision, err = s.kv.Create(ctx, d.Key, d.Value)
	}
	return result, s.failed(d.Key, err)
}

// Delete deletes an entity: the hub deletes the objects that it has made of it.
func (s *Store) Delete(ctx context.Context, key string, w Write) (Result, error) {
	now, err := s.Get(ctx, key)
	if err != nil {
		return Result{}, err
	}
	if err := s.expect(w, now, key); err != nil || w.DryRun {
		return Result{Done: "deleted"}, err
	}
	return Result{Done: "deleted"}, s.failed(key, s.kv.Delete(ctx, key, jetstream.LastRevision(now.Revision)))
}

// expect returns an error if an entity does not have the expected revision.
func (s *Store) expect(w Write, now Document, key string) error {
	if w.Revision == nil || *w.Revision == now.Revision {
		return nil
	}
	return fmt.Errorf("entity %s of bucket %s has the revision %d, and not %d: %w", key, s.bucket, now.Revision, *w.Revision, bucket.ErrConflict)
}

// failed returns the error of a write.
func (s *Store) failed(key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyExists):
		return fmt.Errorf("entity %s of bucket %s: %w", key, s.bucket, bucket.ErrConflict)
	}
	return fmt.Errorf("write entity %s of bucket %s: %w", key, s.bucket, err)
}

// Watch calls f for each entity, and then for each change, until ctx ends. A deleted entity has the revision of its deletion and no
// value. The watch begins again after a loss, and f gets what has changed meanwhile.
func Watch(ctx context.Context, js jetstream.JetStream, name string, f func(Document)) error {
	b, err := bucket.New(bucket.Options{
		Name: name, Writer: "cli", JetStream: func() (jetstream.JetStream, error) { return js, nil },
		Gate: func() error { return errReadOnly },
	})
	if err != nil {
		return err
	}
	unsubscribe := b.Subscribe(func(c bucket.Change) {
		e, ok := b.Get(c.Key)
		if !ok {
			f(Document{Key: c.Key, Revision: uint64(c.Revision)})
			return
		}
		f(newDocument(e.Key, uint64(e.Revision), e.Created, e.Value))
	})
	defer unsubscribe()
	b.Run(ctx)
	return nil
}

var errReadOnly = errors.New("a command writes no canary")

// Buckets returns the names of all buckets, sorted. Those with a status are left out unless withStatus is set.
func Buckets(ctx context.Context, js jetstream.JetStream, withStatus bool) ([]string, error) {
	lister := js.KeyValueStoreNames(ctx)
	var names []string
	for name := range lister.Name() {
		names = append(names, name)
	}
	if err := lister.Error(); err != nil {
		return nil, fmt.Errorf("list the buckets: %w", err)
	}
	slices.Sort(names)
	if withStatus {
		return names, nil
	}
	known := slices.Clone(names)
	return slices.DeleteFunc(names, func(name string) bool {
		_, isFound := slices.BinarySearch(known, strings.TrimSuffix(name, "-status"))
		return strings.HasSuffix(name, "-status") && isFound
	}), nil
}
