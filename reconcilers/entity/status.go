// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Reasons of a status that the package writes itself.
const (
	// ReasonUndecodable: the value cannot be decoded.
	ReasonUndecodable = "Undecodable"
	// ReasonFailed: the reconcile returns an error.
	ReasonFailed = "ReconcileFailed"
	// ReasonRejected: the API server refuses a request; the message has the class of the refusal.
	ReasonRejected = "Rejected"
	// ReasonNamespaceMissing: the namespace of an object does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonDeletesHeld: deletes of the reconcile are held.
	ReasonDeletesHeld = "DeletesHeld"
	// ReasonReplacing: the secondaries of an earlier entity under the key are being deleted.
	ReasonReplacing = "Replacing"
)

// Status is the status of an entity: a part for each cluster.
type Status struct {
	Clusters map[string]Part `json:"clusters"`
}

// Part is the status in one cluster. It decides about nothing.
type Part struct {
	Revision bucket.Revision `json:"revision"` // the value's that was reconciled
	Ready    bool            `json:"ready"`
	Reason   string          `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
	Since    time.Time       `json:"since"`         // when Ready, Reason or Message changed last
	Hub      string          `json:"hub,omitempty"` // a digest of the id of the hub that wrote the part
}

func hubDigest(hub string) string { return Marks{Hub: hub}.hash("status")[:10] }

// StatusStore has the status under the same keys of another bucket: writers of values and of the status never
// conflict, and need different permissions.
type StatusStore struct{ bucket *bucket.Bucket }

// StatusBucket names the bucket with the status of the entities in another.
func StatusBucket(name string) string { return name + "-status" }

// NewStatusStore returns the store of a Disposable bucket that StatusBucket names.
func NewStatusStore(b *bucket.Bucket) *StatusStore { return &StatusStore{bucket: b} }

// statusTries bounds the tries of one change. The next reconcile tries again.
const statusTries = 10

// Get reads a status, which is zero if there is none.
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

// DecodeStatus returns an empty status for one that cannot be decoded: it is a report, and is written again.
func DecodeStatus(data []byte) Status {
	var s Status
	if json.Unmarshal(data, &s) != nil {
		return Status{}
	}
	return s
}

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

// remove removes the whole status with the last part.
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

// RemoveCluster removes the parts of a cluster, as in a cleanup step. It tries until ctx ends, unless the hub has no
// server. The error wraps bucket.ErrNotComplete if the bucket is not read completely: then RemoveGone removes them.
func (s *StatusStore) RemoveCluster(ctx context.Context, cluster string) (err error) {
	_ = wait.PollUntilContextCancel(ctx, sweepEvery, true, func(ctx context.Context) (bool, error) {
		err = s.removeCluster(ctx, cluster)
		return err == nil || errors.Is(err, bucket.ErrNoServer), nil
	})
	return err
}

func (s *StatusStore) removeCluster(ctx context.Context, cluster string) error {
	if h := s.bucket.Health(); !h.Complete {
		return fmt.Errorf("remove the status of cluster %s from bucket %s: %w: %w", cluster, s.bucket.Name(), bucket.ErrNotComplete, h.Err)
	}
	return s.removeWhere(ctx, func(of string, _ Part) bool { return of == cluster })
}

func (s *StatusStore) removeWhere(ctx context.Context, f func(cluster string, p Part) bool) error {
	var errs []error
	for key, all := range s.all() {
		for cluster, p := range all {
			if f(cluster, p) {
				errs = append(errs, s.remove(ctx, key, cluster))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *StatusStore) all() iter.Seq2[string, map[string]Part] {
	return func(yield func(string, map[string]Part) bool) {
		for _, key := range s.bucket.Keys() {
			if e, _ := s.bucket.Get(key); !yield(key, DecodeStatus(e.Value).Clusters) {
				return
			}
		}
	}
}

// RemoveGone removes the parts that a hub wrote for clusters it no longer has, as after a deletion while NATS was
// away. clusters reads the names of all; it is called after the parts are known, so that a new cluster is among them.
func (s *StatusStore) RemoveGone(ctx context.Context, hub string, clusters func(context.Context) (map[string]bool, error)) error {
	gone, own := map[string]bool{}, hubDigest(hub)
	for _, all := range s.all() {
		for cluster, p := range all {
			gone[cluster] = gone[cluster] || p.Hub == own
		}
	}
	existing, err := clusters(ctx)
	if err != nil {
		return fmt.Errorf("read the Clusters with a status: %w", err)
	}
	return s.removeWhere(ctx, func(cluster string, p Part) bool { return gone[cluster] && !existing[cluster] && p.Hub == own })
}

// orphans have a part of a cluster, and no value among the primaries.
func (s *StatusStore) orphans(primaries *bucket.Bucket, cluster string) []string {
	if s == nil {
		return nil
	}
	var keys []string
	for key, all := range s.all() {
		_, exists := primaries.Get(key)
		if _, ok := all[cluster]; ok && !exists {
			keys = append(keys, key)
		}
	}
	return keys
}

// change tries again after another writer. It tries first with the copy in memory, so a status that is right costs no
// request.
func (s *StatusStore) change(ctx context.Context, key string, f func(Status) (Status, bool)) error {
	complete := s.bucket.Health().Complete
	e, known := s.bucket.Get(key)
	if _, changed := f(DecodeStatus(e.Value)); !changed && (known || complete) {
		return nil // Also while NATS is away.
	}
	var err error
	for try := range statusTries {
		all, at := DecodeStatus(e.Value), e.Revision
		if try > 0 || !complete {
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
		return s.bucket.Delete(ctx, key, at)
	}
	data, err := json.Marshal(all)
	if err == nil {
		_, err = s.bucket.Put(ctx, key, data, at)
	}
	return err
}

func (c *Controller[T]) report(ctx context.Context, e *Entity[T], r Report) error {
	switch {
	case c.options.Status == nil:
		return nil
	case r.Omit:
		return c.options.Status.remove(ctx, e.Key, c.options.Cluster)
	}
	return c.options.Status.set(ctx, e.Key, c.options.Cluster, Part{
		Revision: e.Revision, Ready: r.Ready, Reason: r.Reason, Message: r.Message, Since: time.Now().UTC().Truncate(time.Second),
		Hub: hubDigest(c.options.Marks.Hub),
	})
}

// reportOf leaves out the texts of an API server.
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
