// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// Prefix begins the finalizer and the field managers of a reconciler; Options.Name follows.
const Prefix = "guard.clusterfx.dev/"

// InstanceLabel is on all objects of Controller.Create and Apply: the owner's name, cut and with a hash if it is too
// long.
const InstanceLabel = Prefix + "instance"

// Options name a host and say where its locks are. Only Name is required.
type Options[O client.Object] struct {
	// Name is part of the finalizer, field managers, controller and value group: a DNS label of at most 32
	// characters, the same in all replicas. It must not change while objects have the finalizer.
	Name string

	// Conditions returns status.conditions, a list with the map key type, in a status that is a subresource. Required
	// with Locks. Default: the condition is kept with the lock and not written to the object.
	Conditions func(obj O) *[]metav1.Condition
	// Locks returns status.locks of a kind of your own, a list with the map key type. Default: a Lease has the lock.
	Locks func(obj O) *[]lock.State
	// LeaseNamespace is where Leases are, in the cluster of the objects. It must outlive the namespaces of the
	// objects, since their deletion may delete locks first. Default: default.
	LeaseNamespace string

	// TTL, in whole seconds, is when other replicas may take the lock of a replica that has stopped. The lock is
	// renewed each third of it; after two thirds without success the task's context ends. Default: 30 seconds.
	TTL time.Duration
	// Holder names this replica in locks, for people; a random suffix is added. Default: the host name.
	Holder string
	// Classify returns the class of an error. Default: a reconcile.TerminalError is Terminal, a conflict of an API
	// server is Conflict, others are Retryable. ErrStale is always Conflict.
	Classify func(err error) Class
	// Events records events of the objects. Default: the manager's recorder with AddTo and Module, else none.
	Events events.EventRecorder

	// Order is the order of condition types; others follow. Default: that of the factories; with Module, by type and
	// name.
	Order []string
	// ControllerOptions configure the controller of AddTo and Module. Timeout bounds a reconcile with its tasks, by
	// default that of the manager or else 5 minutes. Build adds watches, such as Owns.
	ControllerOptions
}

// ControllerOptions configure the controller of a reconciler.
type ControllerOptions = hubcontroller.ControllerOptions

const (
	defaultTTL     = 30 * time.Second
	maxTTL         = time.Hour
	defaultTimeout = 5 * time.Minute
	maxName        = 32
	maxHolder      = 200
	maxManager     = 64
)

func (o Options[O]) withDefaults() (Options[O], error) {
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 || len(o.Name) > maxName {
		return o, fmt.Errorf("%w: guard %q: a DNS label of at most %d characters is needed as name: %s",
			ErrInvalidConfig, o.Name, maxName, strings.Join(problems, ", "))
	}
	if o.Locks != nil && o.Conditions == nil {
		return o, fmt.Errorf("%w: guard %s: Locks without Conditions; give both, or neither", ErrInvalidConfig, o.Name)
	}
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	if o.TTL < time.Second || o.TTL%time.Second != 0 || o.TTL > maxTTL {
		return o, fmt.Errorf("%w: guard %s: TTL %v: whole seconds up to an hour are needed", ErrInvalidConfig, o.Name, o.TTL)
	}
	if o.Timeout < 0 || len(o.Holder) > maxHolder {
		return o, fmt.Errorf("%w: guard %s: a negative Timeout, or a Holder of more than %d bytes",
			ErrInvalidConfig, o.Name, maxHolder)
	}
	o.LeaseNamespace = cmp.Or(o.LeaseNamespace, metav1.NamespaceDefault)
	if o.Classify == nil {
		o.Classify = classify
	}
	return o, nil
}

// patience is how long a process relies on its lock. The rest of the TTL is for the task to return, and for clocks
// that run faster than ours.
func (o Options[O]) patience() time.Duration { return 2 * o.TTL / 3 }

func (o Options[O]) identity() string { return Prefix + o.Name }
