// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeletionPolicy says what happens when somebody else deletes a copy.
type DeletionPolicy string

const (
	// Recreate makes the copy again. It is the default.
	Recreate DeletionPolicy = "Recreate"
	// Propagate deletes the original, if a watch has reported the deletion of the copy. A deletion that happens while the
	// process does not run is not seen, and the copy is made again.
	Propagate DeletionPolicy = "Propagate"
)

// Options are the options of one Syncer in a pair. The zero Options are the defaults.
type Options[T client.Object] struct {
	// Kind is the kind of the objects. It is needed if T is *unstructured.Unstructured. Default: the kind of T in the scheme
	// of the pair's manager.
	Kind schema.GroupVersionKind
	// Select selects upstream objects. An object that is not selected is treated as absent. It must not block, and must not
	// change the object. Default: all objects.
	Select func(up T) bool
	// OnDownstreamDeletion is the policy for copies that somebody else deletes. Default: Recreate.
	OnDownstreamDeletion DeletionPolicy
	// Exclude are JSON pointers to fields that the pair does not write downstream, such as /spec/replicas, because they belong
	// to the downstream cluster. Default: none.
	Exclude []string
	// Hooks are called, in order, for each object that the pair reads or writes. Default: none.
	Hooks []ClientHook[T]
	// Observe sends no writes to any side; each of them becomes an event with the reason WouldWrite. Default: false.
	Observe bool
	// Concurrency is how many objects are reconciled at once. One object is reconciled by one worker at a time. Default: 10.
	Concurrency int
	// Timeout bounds one reconcile. Default: the timeout of the manager, or one minute.
	Timeout time.Duration
}

const (
	defaultConcurrency = 10 // as the peers have found sufficient for thousands of objects
	defaultTimeout     = time.Minute
	// retryBase and retryMax bound the pause after errors of an object. The pause doubles with each error.
	retryBase, retryMax = 5 * time.Millisecond, 5 * time.Minute
	// pauseBase is the pause of an object that waits for somebody else. It doubles each time, up to retryMax.
	pauseBase = time.Second
	// conflicted is the pause after a write that failed because the object has changed: the cache gets the change meanwhile.
	conflicted = 100 * time.Millisecond
	// unready is the pause of an object while a leased remote is not Ready. It sends no request.
	unready = 5 * time.Second
)
