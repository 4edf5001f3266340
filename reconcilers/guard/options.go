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

// Prefix is the first part of the finalizer of a reconciler of this package; Options.Name is the second part. The names
// of the field managers begin with the same text.
const Prefix = "guard.clusterfx.dev/"

// InstanceLabel is on all objects that Controller.Create and Apply write. Its value is the name of the owner, or the
// beginning of the name and a hash if the name is too long for the value of a label.
const InstanceLabel = Prefix + "instance"

// Options name a host and configure the place of its locks. Only Name is required.
type Options[O client.Object] struct {
	// Name names the host: its finalizer, field managers, controller and value group. It is a DNS label of
	// at most 32 characters. Replicas share it. It must not change as long as there are objects with the finalizer.
	Name string

	// Conditions returns the conditions of an object: status.conditions, a list with the map key type, in a status that
	// is a subresource. Default: no condition is written to the object; the value of Controller.Condition is kept with
	// the lock. Required if Locks is set.
	Conditions func(obj O) *[]metav1.Condition
	// Locks returns the locks of an object of a kind of your own: status.locks, a list with the map key type. Default:
	// the lock is in a Lease, for kinds whose status cannot be extended.
	Locks func(obj O) *[]lock.Record
	// LeaseNamespace is the namespace of the Leases, in the cluster of the objects. It is not the namespace of an object,
	// because the deletion of that namespace may delete the locks before the object. Default: default.
	LeaseNamespace string

	// TTL is the time after which other replicas may take the lock of a replica that has stopped, in whole seconds. While
	// a task runs, the lock is renewed each third of the TTL, and after two thirds without success the task's context
	// ends. Default: 30 seconds.
	TTL time.Duration
	// Holder names this replica in its locks, for people. Default: the host name. A random suffix is added.
	Holder string
	// Classify returns the class of an error of a task or a provider. Default: a reconcile.TerminalError is Terminal, a
	// conflict of an API server is Conflict, all other errors are Retryable. ErrStale is always Conflict.
	Classify func(err error) Class
	// Events records events about the objects. Default: the manager's recorder with AddTo and Module, else none.
	Events events.EventRecorder

	// Order is the order of the condition types for a reconciler. Types that are not in it follow. Default: the order of
	// the factories; with Module, by condition type and name.
	Order []string
	// ControllerOptions configure the controller that AddTo and Module add. Timeout bounds one reconcile with its tasks,
	// and is 5 minutes if the manager has no timeout. Build adds watches, such as Owns for objects that providers create.
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

// patience is the time for which a process relies on its lock after the last extension. The rest of the TTL is for the
// task to return, and for clocks that run faster than ours.
func (o Options[O]) patience() time.Duration { return 2 * o.TTL / 3 }

// identity is the finalizer of reconcilers, and the field manager of all writes but locks and conditions.
func (o Options[O]) identity() string { return Prefix + o.Name }
