// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeletionPolicy is for copies that another client deletes.
type DeletionPolicy string

const (
	// Recreate makes the copy again. Default.
	Recreate DeletionPolicy = "Recreate"
	// Propagate deletes the original if a watch has reported the deletion. One that no process sees recreates the
	// copy.
	Propagate DeletionPolicy = "Propagate"
)

// Options of one Syncer. The zero Options are the defaults.
type Options[T client.Object] struct {
	// Kind is needed if T is *unstructured.Unstructured. Default: the kind of T in the manager's scheme.
	Kind schema.GroupVersionKind
	// Select: an object that is not selected counts as absent. It must not block or change the object. Default: all
	// objects.
	Select func(up T) bool
	// OnDownstreamDeletion defaults to Recreate.
	OnDownstreamDeletion DeletionPolicy
	// Exclude are JSON pointers to fields that belong to the downstream cluster, such as /spec/replicas. Default:
	// none.
	Exclude []string
	// Hooks are called in order for each object read or written. Default: none.
	Hooks []ClientHook[T]
	// CreateOnly makes a copy that is absent, and never changes one. Default: false.
	CreateOnly bool
	// Moves deletes the copies of the same tenant at other addresses than the translator's, each when its original has a copy at the
	// right address, or needs none. Default: they stay.
	Moves bool
	// Observe sends no writes; each becomes an event WouldWrite. Default: false.
	Observe bool
	// Concurrency is how many objects are reconciled at once, each by one worker. Default: 10.
	Concurrency int
	// Timeout bounds one reconcile. Default: the manager's, or one minute.
	Timeout time.Duration
}

const (
	defaultConcurrency = 10 // peers find it enough for thousands of objects
	defaultTimeout     = time.Minute
	// retryBase and retryMax bound the pause after errors, which doubles.
	retryBase, retryMax = 5 * time.Millisecond, 5 * time.Minute
	// pauseBase is the pause of an object that waits for another client. It doubles up to retryMax.
	pauseBase = time.Second
	// conflicted is the pause after a conflict: the cache gets the change meanwhile.
	conflicted = 100 * time.Millisecond
)
