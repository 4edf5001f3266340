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

// Prefix is the first part of the finalizer of a pipeline; Options.Name is the second part. The field manager of the
// pipeline's own writes has the same name.
const Prefix = "pipeline.clusterfx.dev/"

// PausedAnnotation with the value "true" pauses the pipeline for an object: no resource runs, also if the object is
// being deleted. The annotations of Cluster API and of operatorkit, and Options.PauseAnnotations, have the same effect.
const PausedAnnotation = "clusterfx.dev/paused"

// Options name a pipeline and configure its behavior. Only Name is required.
type Options[O client.Object] struct {
	// Name names the pipeline: its finalizer, field manager, controller, and its value group. It is a DNS
	// label, and no other pipeline for the same objects has it. It must not change as long as there
	// are objects with its finalizer.
	Name string

	// Conditions returns the conditions in the status of an object. They are a list with the map key type,
	// in a status that is a subresource. Default: nothing is written to the status of objects.
	Conditions func(obj O) []metav1.Condition
	// ConditionPrefix is a prefix for the types Ready, Reconciling and Stalled, as in DNSReady, for objects with several
	// pipelines. The result must be a valid type of a condition. Default: none.
	ConditionPrefix string
	// Events records an event when the conditions change to a ReasonError, or to the reason why an object that is being
	// deleted keeps its finalizer. Without Conditions it records each of them. Default: the manager's recorder with AddTo
	// and Module, else none.
	Events events.EventRecorder

	// Resync is the time after which an unchanged object is reconciled again, plus up to a tenth. A canceled deletion
	// waits for the same time. A deletion that keeps the finalizer is run again after 100 ms, and after twice the time
	// with each further try, up to Resync and to 5 minutes. Default: 5 minutes.
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
