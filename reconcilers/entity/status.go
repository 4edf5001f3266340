// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// The reasons of a status that the package writes itself.
const (
	// ReasonUndecodable is the reason while the value of the entity cannot be decoded.
	ReasonUndecodable = "Undecodable"
	// ReasonFailed is the reason while the reconcile returns an error.
	ReasonFailed = "ReconcileFailed"
	// ReasonRejected is the reason while the API server refuses what the reconcile requests; the message has the class of the refusal.
	ReasonRejected = "Rejected"
	// ReasonNamespaceMissing is the reason while the namespace of an object does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonDeletesHeld is the reason while deletes of the reconcile are held.
	ReasonDeletesHeld = "DeletesHeld"
	// ReasonReplacing is the reason while the secondaries of an earlier entity under the key are being deleted.
	ReasonReplacing = "Replacing"
)

// Status is the status of an entity: a part for each cluster.
type Status struct {
	Clusters map[string]Part `json:"clusters"`
}

// Part is the status of an entity in one cluster. It reports, and decides about nothing.
type Part struct {
	// Revision is that of the value that was reconciled.
	Revision bucket.Revision `json:"revision"`
	Ready    bool            `json:"ready"`
	Reason   string          `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
	// Since is the time of the last change of Ready, Reason or Message.
	Since time.Time `json:"since"`
}

// StatusStore has the status of the entities of a bucket in a bucket of its own, under the same keys: so the writers of values and
// of the status never conflict, and need different permissions.
type StatusStore struct {
	bucket *bucket.Bucket

	mu sync.Mutex // protects ahead; held for a few instructions
	// ahead has the revisions of own writes that the copy of the bucket in memory may not have yet, by key.
	ahead map[string]bucket.Revision
}

// StatusBucket returns the name of the bucket with the status of the entities in a bucket.
func StatusBucket(name string) string { return name + "-status" }

// NewStatusStore returns the store of a bucket, which StatusBucket names.
func NewStatusStore(b *bucket.Bucket) *StatusStore {
	return &StatusStore{bucket: b, ahead: map[string]bucket.Revision{}}
}

// wrote notes the revision of an own write; 0 for a deletion.
func (s *StatusStore) wrote(key string, at bucket.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == 0 {
		delete(s.ahead, key)
		return
	}
	s.ahead[key] = at
}

// isBehind reports whether the copy of a status in memory, of a revision, is older than the last own write.
func (s *StatusStore) isBehind(key string, at bucket.Revision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.ahead[key]
	if ok && at >= last {
		delete(s.ahead, key)
	}
	return ok && at < last
}

// keys returns the keys that have a status, also those of own writes that the copy in memory does not have yet.
func (s *StatusStore) keys() []string {
	all := s.bucket.Keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(all, slices.Collect(maps.Keys(s.ahead))...)
}

// statusTries bounds the tries of one change. Another try follows with the next reconcile.
const statusTries = 10

// Get reads the status of an entity. An entity without a status has the zero Status.
func (s *StatusStore) Get(ctx context.Context, key string) (Status, error) {
	found, _, err := s.read(ctx, key)
	return found, err
}

func (s *StatusStore) read(ctx context.Context, key string) (Status, bucket.Revision, error) {
	var found Status
	e, err := s.bucket.Read(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return found, 0, nil
	}
	if err != nil {
		return found, 0, fmt.Errorf("read the status of %s: %w", key, err)
	}
	return DecodeStatus(e.Value), e.Revision, nil
}

// DecodeStatus decodes the value of a status. One that cannot be decoded is empty: it is only a report, and is written again.
func DecodeStatus(data []byte) Status {
	var s Status
	if json.Unmarshal(data, &s) != nil {
		return Status{}
	}
	return s
}

// set sets the part of a cluster.
func (s *StatusStore) set(ctx context.Context, key, cluster string, p Part) error {
	return s.change(ctx, key, func(all Status) (Status, bool) {
		known, ok := all.Clusters[cluster]
		if ok && known.Ready == p.Ready && known.Reason == p.Reason && known.Message == p.Message {
			p.Since = known.Since
			if known == p {
				return all, false
			}
		}
		if all.Clusters == nil {
			all.Clusters = map[string]Part{}
		}
		all.Clusters[cluster] = p
		return all, true
	})
}

// remove removes the part of a cluster, and the whole status with the last part.
func (s *StatusStore) remove(ctx context.Context, key, cluster string) error {
	if s == nil {
		return nil
	}
	return s.change(ctx, key, func(all Status) (Status, bool) {
		_, ok := all.Clusters[cluster]
		delete(all.Clusters, cluster)
		return all, ok
	})
}

// RemoveCluster removes the parts of a cluster from the status of all entities, as in a cleanup step when its Cluster is deleted. The
// error wraps bucket.ErrNotComplete if the bucket is not read completely: the parts stay then.
func (s *StatusStore) RemoveCluster(ctx context.Context, cluster string) error {
	if !s.bucket.Health().Complete {
		return fmt.Errorf("remove the status of cluster %s from bucket %s: %w", cluster, s.bucket.Name(), bucket.ErrNotComplete)
	}
	var errs []error
	for _, key := range s.keys() {
		e, _ := s.bucket.Get(key)
		if _, ok := DecodeStatus(e.Value).Clusters[cluster]; ok || s.isBehind(key, e.Revision) {
			errs = append(errs, s.remove(ctx, key, cluster))
		}
	}
	return errors.Join(errs...)
}

// orphans returns the keys that have a part of a cluster, and no value in the bucket of the primaries.
func (s *StatusStore) orphans(primaries *bucket.Bucket, cluster string) []string {
	if s == nil {
		return nil
	}
	var all []string
	for _, key := range s.bucket.Keys() {
		if _, exists := primaries.Get(key); exists {
			continue
		}
		e, _ := s.bucket.Get(key)
		if _, ok := DecodeStatus(e.Value).Clusters[cluster]; ok {
			all = append(all, key)
		}
	}
	return all
}

// change changes a status, and tries again if another writer has changed it meanwhile. The first try is with the copy in memory, so a
// status that is as it should be costs no request.
func (s *StatusStore) change(ctx context.Context, key string, f func(Status) (Status, bool)) error {
	complete := s.bucket.Health().Complete
	e, known := s.bucket.Get(key)
	behind := s.isBehind(key, e.Revision)
	if _, changed := f(DecodeStatus(e.Value)); !changed && !behind && (known || complete) {
		return nil // Also while NATS is away.
	}
	var err error
	for try := range statusTries {
		all, at := DecodeStatus(e.Value), e.Revision
		if try > 0 || !complete || behind {
			if all, at, err = s.read(ctx, key); err != nil {
				return err
			}
		}
		all, changed := f(all)
		if !changed {
			return nil
		}
		if err = s.write(ctx, key, all, at); !errors.Is(err, bucket.ErrConflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", key, err)
	}
	return nil
}

func (s *StatusStore) write(ctx context.Context, key string, all Status, at bucket.Revision) error {
	if len(all.Clusters) == 0 {
		err := s.bucket.Delete(ctx, key, at)
		if err == nil {
			s.wrote(key, 0)
		}
		return err
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	written, err := s.bucket.Put(ctx, key, data, at)
	if err == nil {
		s.wrote(key, written)
	}
	return err
}

// report writes the part of the status for the cluster of the controller.
func (c *Controller[T]) report(ctx context.Context, e *Entity[T], r Report) error {
	switch {
	case c.options.Status == nil:
		return nil
	case r.Omit:
		return c.options.Status.remove(ctx, e.Key, c.options.Cluster)
	}
	return c.options.Status.set(ctx, e.Key, c.options.Cluster, Part{
		Revision: e.Revision, Ready: r.Ready, Reason: r.Reason, Message: r.Message, Since: time.Now().UTC().Truncate(time.Second),
	})
}

// reportOf returns the report of an error of a reconcile, without texts of an API server.
func reportOf(err error) Report {
	var exists *existsError
	class, isRefused := object.Refusal(err)
	switch {
	case err == nil:
		return Report{Reason: ReasonReplacing, Message: "The objects of an earlier entity under this key are being deleted."}
	case deletes.IsHeld(err):
		return Report{Reason: ReasonDeletesHeld, Message: "Deletes are held; the condition DeletesHeld of the Cluster and hub deletes ls have the reason."}
	case errors.As(err, &exists):
		return Report{Reason: ReasonResourceExists, Message: exists.Error()}
	case object.LacksNamespace(err):
		return Report{Reason: ReasonNamespaceMissing, Message: "The namespace of an object does not exist: " + class}
	case isRefused:
		return Report{Reason: ReasonRejected, Message: "The API server refuses a request: " + class}
	}
	return Report{Reason: ReasonFailed, Message: "The reconcile failed and is repeated; the log of the hub has the error."}
}
