// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Owned is a bucket with entities that are secondaries: see OwnsStore.
type Owned struct{ bucket *bucket.Bucket }

// OwnsStore returns the bucket of a store for Options.OwnsEntities. Its values are JSON objects.
func OwnsStore[S any](s *Store[S]) Owned { return Owned{bucket: s.bucket} }

// entityMark is in a field of the value of an entity that is a secondary. It says the same as the labels and
// annotations of objects, and for which cluster: the controllers of all clusters may make entities in one bucket.
type entityMark struct {
	Hash    string `json:"hash"`
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Life    string `json:"life"`
	Cluster string `json:"cluster"`
}

func (m Marks) markField() string { return m.Prefix + "/owner" }

func (m Marks) entityMarkOf(o Owner, key string) entityMark {
	return entityMark{Hash: m.proof(o, key), Kind: o.Kind, Key: o.Key, Life: o.Life.String(), Cluster: m.cluster}
}

// ownerOfEntity returns the primary of an entity of this cluster, and false for another one, or for a mark that the hub
// has not made for it. A value that another client has replaced without the mark is that of the entity nevertheless.
func (m Marks) ownerOfEntity(e bucket.Entry) (Owner, bool) {
	if e.Marked == nil {
		return Owner{}, false // Most values are of others, and are not decoded.
	}
	var fields map[string]json.RawMessage
	var mark entityMark
	if json.Unmarshal(e.Marked, &fields) != nil || json.Unmarshal(fields[m.markField()], &mark) != nil {
		return Owner{}, false
	}
	life, ok := bucket.ParseLife(mark.Life)
	o := Owner{Kind: mark.Kind, Key: mark.Key, Life: life}
	return o, ok && mark.Kind == m.Kind && mark == m.entityMarkOf(o, e.Key)
}

// entities are the secondaries in one bucket that the controller of a cluster has made.
type entities struct {
	*index[string]
	bucket  *bucket.Bucket
	marks   Marks // of the cluster
	deletes deletes.Limiter
}

// resource is what operators read of a hold: <bucket>.entities.clusterfx.dev.
func (x *entities) resource() schema.GroupResource {
	return schema.GroupResource{Group: "entities.clusterfx.dev", Resource: x.bucket.Name()}
}

func (x *entities) changed(key string) []string {
	e, _ := x.bucket.Get(key)
	o, _ := x.marks.ownerOfEntity(e)
	return x.set(key, o)
}

// PutEntity creates or updates an entity that is a secondary, of which Key and Value count, in a bucket of
// Options.OwnsEntities. It writes nothing if the entity is as desired, and keeps fields that S does not have. An entity
// without the marks of this primary and cluster is not touched: the error wraps ErrResourceExists. So controllers in
// several clusters use several keys, such as key + "." + cluster.
func PutEntity[S any](ctx context.Context, s *Secondaries, to *Store[S], e Entity[S]) error {
	key := e.Key
	x := s.entitiesIn(to.bucket)
	if x == nil {
		return fmt.Errorf("%w: bucket %s is not in OwnsEntities, so nothing would collect entity %s", ErrInvalidOptions, to.bucket.Name(), key)
	}
	now, exists := to.bucket.Get(key)
	owner := s.owner
	if exists {
		known, ours := x.marks.ownerOfEntity(now)
		if !ours || known.Key != owner.Key {
			return fmt.Errorf("write entity %s of bucket %s: %w", key, to.bucket.Name(), &existsError{name: key})
		}
		if !s.isBefore(known.Life) {
			owner = known // The controller has checked its life.
		}
	} else if err := to.bucket.Absent(key); errors.Is(err, bucket.ErrNotComplete) {
		return err
	}
	data, err := to.codec.Encode(e.Value, now.Value)
	if err == nil {
		data, err = withMark(data, x.marks.markField(), x.marks.entityMarkOf(owner, key))
	}
	if err != nil {
		return fmt.Errorf("write entity %s of bucket %s: %w", key, to.bucket.Name(), err)
	}
	if exists && SameJSON(now.Value, data) {
		return nil
	}
	_, err = to.bucket.Put(ctx, key, data, now.Revision)
	if err == nil && !exists {
		x.deletes.Created(ctx, x.resource())
	}
	return err
}

func withMark(data []byte, field string, m entityMark) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("the value is no object: %w", withoutText(err))
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	fields[field] = raw
	return json.Marshal(fields)
}

// DeleteEntities deletes all entities of the primary in a bucket of Options.OwnsEntities but those under some keys,
// within the module's limits.
func DeleteEntities[S any](ctx context.Context, s *Secondaries, from *Store[S], except ...string) error {
	x := s.entitiesIn(from.bucket)
	if x == nil {
		return fmt.Errorf("%w: bucket %s is not in OwnsEntities", ErrInvalidOptions, from.bucket.Name())
	}
	return s.deleteEntities(ctx, x, func(key string, _ Owner) bool { return !slices.Contains(except, key) })
}

// entitiesIn returns the secondaries in a bucket of OwnsEntities, and nil for another bucket.
func (s *Secondaries) entitiesIn(b *bucket.Bucket) *entities {
	for _, x := range s.entities {
		if x.bucket == b {
			return x
		}
	}
	return nil
}

// deleteEntities deletes the entities of the primary that f selects. It continues after one that cannot be deleted.
func (s *Secondaries) deleteEntities(ctx context.Context, x *entities, f func(key string, o Owner) bool) error {
	if !x.bucket.Health().Complete {
		return fmt.Errorf("bucket %s: %w", x.bucket.Name(), bucket.ErrNotComplete)
	}
	var errs []error
	for _, key := range x.of(s.owner.Key, anyLife) {
		e, _ := x.bucket.Get(key)
		o, ours := x.marks.ownerOfEntity(e)
		if !ours || o.Key != s.owner.Key || !f(key, o) {
			continue
		}
		errs = append(errs, x.delete(ctx, e))
	}
	return errors.Join(errs...)
}

func (x *entities) delete(ctx context.Context, e bucket.Entry) error {
	life := types.UID(fmt.Sprint(e.Key, "@", e.Revision))
	done, err := x.deletes.Admit(deletes.Owning(ctx, x.size()), x.resource(), e.Key, life)
	if err != nil {
		return fmt.Errorf("delete entity %s of bucket %s: %w", e.Key, x.bucket.Name(), err)
	}
	err = x.bucket.Delete(ctx, e.Key, e.Revision)
	if err == nil || errors.Is(err, bucket.ErrConflict) || errors.Is(err, bucket.ErrUnsent) { // Others may have deleted it.
		done(err == nil)
	}
	return err
}
