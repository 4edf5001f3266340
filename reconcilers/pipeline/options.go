// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/assembly"
)

// Prefix begins the name of the finalizer of a pipeline, which ends with Options.Name. The same name is
// that of the field manager of all that the pipeline itself writes.
const Prefix = "pipeline.clusterfx.dev/"

// PausedAnnotation with the value "true" makes a pipeline leave an object alone: nothing runs, also if the
// object is being deleted. So do the annotations of Cluster API and of operatorkit, and those in
// Options.PauseAnnotations.
const PausedAnnotation = "clusterfx.dev/paused"

// Options say what a pipeline is called and how it behaves. Only Name is needed.
type Options[O client.Object] struct {
	// Name names the pipeline: its finalizer, field manager, controller, and its value group. It is a DNS
	// label, and no other pipeline for the same objects has it. It must not change as long as there
	// are objects with its finalizer.
	Name string

	// Conditions returns the conditions in the status of an object. They are a list with the map key type,
	// in a status that is a subresource. Default: nothing is written to the status of objects.
	Conditions func(obj O) []metav1.Condition
	// ConditionPrefix is put before Ready, Reconciling and Stalled, as in DNSReady, for a pipeline that
	// is not the only one to report on its objects. What comes of it must be the type of a condition. Default: none.
	ConditionPrefix string
	// Events records an event when the conditions change to a ReasonError, or to the reason for which an object that is
	// being deleted keeps its finalizer, and without Conditions for each one. Default: that of the manager with AddTo and Module, else none.
	Events events.EventRecorder

	// Resync is the time after which an object is looked at again though nobody changed it, plus up to a
	// tenth. It is also how long a canceled deletion waits. One that keeps the finalizer is run again after 100 ms, and
	// twice as long each time, up to this and to 5 minutes. Default: 5 minutes.
	Resync time.Duration
	// ReverseOnDelete deletes in the opposite order. Default: the same order.
	ReverseOnDelete bool
	// PauseAnnotations are further annotations that pause an object when their value is "true".
	PauseAnnotations []string

	// ControllerOptions configure the controller that AddTo and Module add. Timeout bounds one pass, and is 1 minute
	// if the manager has no timeout. If a predicate that Build adds drops an event, the object is reconciled after
	// Resync.
	ControllerOptions
}

// ControllerOptions configure the controller of a pipeline.
type ControllerOptions = assembly.Options

// Defaults of Options.
const (
	defaultResync  = 5 * time.Minute
	defaultTimeout = time.Minute
)

// withDefaults returns the options to work with, or ErrInvalidConfig.
func (o Options[O]) withDefaults() (Options[O], error) {
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 {
		return o, fmt.Errorf("%w: pipeline %q: name: %s", ErrInvalidConfig, o.Name, strings.Join(problems, ", "))
	}
	longest := o.ConditionPrefix + conditionReconciling
	if problems := validation.IsQualifiedName(longest); len(problems) > 0 {
		return o, fmt.Errorf("%w: pipeline %s: ConditionPrefix: %q cannot be the type of a condition: %s",
			ErrInvalidConfig, o.Name, longest, strings.Join(problems, ", "))
	}
	for name, d := range map[string]time.Duration{"Resync": o.Resync, "Timeout": o.Timeout} {
		if d < 0 {
			return o, fmt.Errorf("%w: pipeline %s: %s is negative", ErrInvalidConfig, o.Name, name)
		}
	}
	if o.Resync == 0 {
		o.Resync = defaultResync
	}
	o.PauseAnnotations = slices.Concat(o.PauseAnnotations,
		[]string{PausedAnnotation, "cluster.x-k8s.io/paused", "operatorkit.giantswarm.io/paused"})
	return o, nil
}

// identity is the finalizer and the field manager.
func (o Options[O]) identity() string { return Prefix + o.Name }
