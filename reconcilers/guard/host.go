// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// Host is what a replica's reconciler shares between its objects: its identity in the locks, and what it has observed
// of other locks. It is for one controller, see Predicate, and several goroutines.
type Host[O client.Object] struct {
	client     client.Client
	live       client.Reader
	options    Options[O]
	gvk        schema.GroupVersionKind
	finalizers object.Finalizers
	holder     string
	clock      clock
	others     *cache.LRUExpireCache // an observation by lockKey
	turns      sync.Map              // the lockKeys of running tasks and writes
	types      sync.Map              // the condition types of controllers
}

// NewHost returns a host. The client writes the objects, their children and Leases; live must read the same cluster
// without a cache (GetAPIReader), since decisions about locks need it. O is a pointer to a struct that the scheme
// knows. NewHost sends no requests. The error is ErrInvalidConfig. The controller must use Host.Predicate.
func NewHost[O client.Object](c client.Client, live client.Reader, o Options[O]) (*Host[O], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if c == nil || live == nil {
		return nil, fmt.Errorf("%w: guard %s: a client and a live reader are needed, such as the GetClient and GetAPIReader "+
			"of a manager", ErrInvalidConfig, o.Name)
	}
	gvk, err := object.KindOf[O](c)
	if err != nil {
		return nil, fmt.Errorf("%w: guard %s: %w", ErrInvalidConfig, o.Name, err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return &Host[O]{
		client: c, live: live, options: o, gvk: gvk, clock: realClock{},
		others:     cache.NewLRUExpireCache(maxObservations),
		finalizers: object.Finalizers{Client: c, Kind: gvk, Owner: o.identity()},
		// Two processes of one name must never take each other's locks for their own.
		holder: cmp.Or(o.Holder, fit(name, maxManager)) + "_" + strings.ToLower(rand.Text()),
	}, nil
}

// Controller returns a controller for one condition of an object, for one reconcile and one goroutine. obj may come
// from a cache; each write refreshes it in place. If the lock is in a Lease, Controller reads it.
func (h *Host[O]) Controller(ctx context.Context, obj O, conditionType string) (*Controller[O], error) {
	if err := checkType(conditionType); err != nil {
		return nil, fmt.Errorf("guard %s: %w", h.options.Name, err)
	}
	return h.controller(ctx, obj, conditionType, preconditionOf(obj))
}

func checkType(conditionType string) error {
	if problems := validation.IsQualifiedName(conditionType); len(problems) > 0 {
		return fmt.Errorf("%w: condition type %q: %s", ErrInvalidConfig, conditionType, strings.Join(problems, ", "))
	}
	return nil
}

func (h *Host[O]) controller(ctx context.Context, obj O, conditionType string, p *precondition) (*Controller[O], error) {
	c := &Controller[O]{host: h, object: obj, key: lockKey{uid: obj.GetUID(), kind: conditionType}, precondition: p}
	c.store = h.storeFor(obj, conditionType)
	h.types.Store(conditionType, true)
	var err error
	if c.seen, err = c.store.view(ctx, obj); err != nil {
		return nil, fmt.Errorf("read the lock %s of %s: %w", conditionType, obj.GetName(), err)
	}
	return c, nil
}

func (h *Host[O]) busy() error { return &LockedError{Holder: h.holder, RetryAfter: time.Second} }

func (h *Host[O]) storeFor(obj O, conditionType string) entryStore[O] {
	name := client.ObjectKeyFromObject(obj)
	if h.options.Locks != nil {
		return statusStore[O]{h, name, conditionType}
	}
	return leaseStore[O]{h, name, client.ObjectKey{
		Namespace: h.options.LeaseNamespace,
		Name:      h.leasePrefix() + string(obj.GetUID()) + "-" + digest(conditionType),
	}, conditionType}
}

func (h *Host[O]) leasePrefix() string { return "guard-" + h.options.Name + "-" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:4])
}

// fit cuts a text that is too long, and appends a digest of all of it.
func fit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	tail := digest(text)
	return text[:most-len(tail)-1] + "-" + tail
}
