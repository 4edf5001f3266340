// SPDX-License-Identifier: Apache-2.0

// Package entities reads and writes entities in NATS buckets for the command line, without the hub or its permissions.
package entities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Document is an entity with its status, as commands print it.
type Document struct {
	Key      string    `json:"key"`
	Revision uint64    `json:"revision"`
	Created  time.Time `json:"created"` // of the revision
	// Value is the value if it is JSON, and Raw if it is not.
	Value json.RawMessage `json:"value,omitempty"`
	Raw   []byte          `json:"raw,omitempty"`
	// Status has a part for each cluster.
	Status *entity.Status `json:"status,omitempty"`
}

func newDocument(e jetstream.KeyValueEntry) Document {
	d := Document{Key: e.Key(), Revision: e.Revision(), Created: e.Created().UTC()}
	if json.Valid(e.Value()) {
		d.Value = e.Value()
	} else {
		d.Raw = e.Value()
	}
	return d
}

// Ready returns in how many clusters the entity is ready, and how many there are.
func (d *Document) Ready() (ready, all int) {
	if d.Status == nil {
		return 0, 0
	}
	for _, part := range d.Status.Clusters {
		if part.Ready {
			ready++
		}
	}
	return ready, len(d.Status.Clusters)
}

// Store is a bucket with entities, and the bucket with their status if there is one.
type Store struct {
	bucket     string
	kv, status jetstream.KeyValue
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
	d := newDocument(e)
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
	status := entity.DecodeStatus(value)
	if len(status.Clusters) == 0 {
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
		d := newDocument(e)
		d.Status = statuses[d.Key]
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Document) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

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

// maxValue is the limit of the size of a value: NATS refuses messages of more than a MiB, unless it is configured otherwise.
const maxValue = 1 << 20

var (
	errEnded    = errors.New("the server has ended the watch")
	errKey      = errors.New("a key has letters, digits, and - / _ = . with single dots inside only")
	errReserved = errors.New("keys with " + bucket.CanaryPrefix + " belong to the hub")
	errNoObject = errors.New("the value is no object; write fields, as in \"state: Active\"")
	errTooLarge = fmt.Errorf("the value has more than %d bytes, which NATS refuses", maxValue)
)

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

// Parse returns the value in a file of YAML or JSON: an object that check, if there is one, accepts.
func Parse(text []byte, check func(value []byte) error) ([]byte, error) {
	value, err := output.ReadYAML(text)
	if err != nil {
		return nil, err
	}
	switch {
	case value[0] != '{':
		return nil, errNoObject
	case len(value) > maxValue:
		return nil, errTooLarge
	case check != nil:
		return value, check(value)
	}
	return value, nil
}

// Result is the result of a write.
type Result struct {
	// Done is created, updated or unchanged.
	Done string
	// Revision is that of the entity afterwards; 0 in a dry run.
	Revision uint64
}

// Apply creates or replaces an entity, and writes nothing in a dry run. The error wraps bucket.ErrConflict if another client changes
// the entity meanwhile.
func (s *Store) Apply(ctx context.Context, key string, value []byte, dryRun bool) (Result, error) {
	now, err := s.Get(ctx, key)
	exists := err == nil
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return Result{}, err
	}
	result := Result{Done: "created"}
	if exists {
		result.Done = "updated"
	}
	switch {
	case exists && entity.SameJSON(now.Value, value):
		return Result{Done: "unchanged", Revision: now.Revision}, nil
	case dryRun:
		return result, nil
	case exists:
		result.Revision, err = s.kv.Update(ctx, key, value, now.Revision)
	default:
		result.Revision, err = s.kv.Create(ctx, key, value)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		err = fmt.Errorf("entity %s of bucket %s: %w", key, s.bucket, bucket.ErrConflict)
	case err != nil:
		err = fmt.Errorf("write entity %s of bucket %s: %w", key, s.bucket, err)
	}
	return result, err
}
