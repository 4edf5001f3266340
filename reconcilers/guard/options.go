// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/assembly"
)

// Prefix begins the name of the finalizer that a reconciler of this package gives its objects, which ends with
// Options.Name. The same name begins those of the field managers.
const Prefix = "guard.clusterfx.dev/"

// InstanceLabel is on everything that Controller.Create and Apply write. Its value is the name of the object that
// it belongs to, or the beginning of the name and a hash if the name is longer than a label may be.
const InstanceLabel = Prefix + "instance"

// Options say what a host is called, and where its locks are. Only Name is needed.
type Options[O client.Object] struct {
	// Name names the host: its finalizer, field managers, controller and value group. It is a DNS label of
	// at most 32 characters. Replicas share it. It must not change as long as there are objects with the finalizer.
	Name string

	// Conditions returns where an object has its conditions: in status.conditions, a list with the map key
	// type, in a status that is a subresource. Default: no condition is written to the object; what
	// Controller.Condition returns is kept with the lock. Needed if Locks is set.
	Conditions func(obj O) *[]metav1.Condition
	// Locks returns where an object of a kind of your own has its locks: in status.locks, a list with the map
	// key type. Default: the lock is in a Lease, for kinds whose status is not ours.
	Locks func(obj O) *[]lock.Record
	// LeaseNamespace is where the Leases are, in the cluster of the objects. It is not the namespace of an
	// object, because that one may be deleted with it, and its locks first. Default: default.
	LeaseNamespace string

	// TTL is how long the lock of a replica that is gone keeps the others waiting, in whole seconds. While a
	// task runs, the lock is renewed each third of it, and after two thirds without success the task's
	// context ends. Default: 30 seconds.
	TTL time.Duration
	// Holder is what this replica is called in its locks, for people. Default: the host name. Something
	// random is added to it.
	Holder string
	// Classify tells the errors of tasks and providers apart. Default: those of reconcile.TerminalError are
	// Terminal, those of an API server that knows a newer object are Conflict, all others Retryable. ErrStale is
	// Conflict whatever it returns.
	Classify func(err error) Class
	// Events records events about the objects. Default: that of the manager with AddTo and Module, else none.
	Events events.EventRecorder

	// Order is the order of the condition types for a reconciler. Types that are not in it come after those
	// that are. Default: the order of the factories; with Module, by condition type and name.
	Order []string
	// ControllerOptions configure the controller that AddTo and Module add. Timeout bounds one reconcile with its
	// tasks, and is 5 minutes if the manager has no timeout. Build is for watches such as Owns for what providers
	// create.
	ControllerOptions
}

// ControllerOptions configure the controller of a reconciler.
type ControllerOptions = assembly.Options

// Defaults of Options.
const (
	defaultTTL     = 30 * time.Second
	maxTTL         = time.Hour
	defaultTimeout = 5 * time.Minute
	maxName        = 32
	maxHolder      = 200
	maxManager     = 64 // of a condition type in a field manager
)

// withDefaults returns the options to work with, or ErrInvalidConfig.
func (o Options[O]) withDefaults() (Options[O], error) {
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 || len(o.Name) > maxName {
		return o, fmt.Errorf("%w: guard %q: a DNS label of at most %d characters is needed as name: %s",
			ErrInvalidConfig, o.Name, maxName, strings.Join(problems, ", "))
	}
	if o.Locks != nil && o.Conditions == nil {
		return o, fmt.Errorf("%w: guard %s: Locks without Conditions; give both, or neither", ErrInvalidConfig, o.Name)
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.TTL < time.Second || o.TTL%time.Second != 0 || o.TTL > maxTTL {
		return o, fmt.Errorf("%w: guard %s: TTL %v: whole seconds up to an hour are needed", ErrInvalidConfig, o.Name, o.TTL)
	}
	if o.Timeout < 0 || len(o.Holder) > maxHolder {
		return o, fmt.Errorf("%w: guard %s: a negative Timeout, or a Holder of more than %d bytes",
			ErrInvalidConfig, o.Name, maxHolder)
	}
	if o.LeaseNamespace == "" {
		o.LeaseNamespace = metav1.NamespaceDefault
	}
	if o.Classify == nil {
		o.Classify = classify
	}
	return o, nil
}

// patience is how long after it was last extended a lock is taken for ours. The rest of the TTL is for the task to
// return, and for clocks that run faster than ours.
func (o Options[O]) patience() time.Duration { return 2 * o.TTL / 3 }

// identity is the finalizer of reconcilers, and the field manager of what is not a lock or a condition.
func (o Options[O]) identity() string { return Prefix + o.Name }
