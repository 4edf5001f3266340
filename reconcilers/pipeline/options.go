// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// Prefix begins the finalizer and the field manager of a pipeline; Options.Name follows.
const Prefix = "pipeline.clusterfx.dev/"

// PausedAnnotation with "true" pauses the pipeline for an object, during its deletion too. So do the annotations of
// Cluster API and operatorkit, and Options.PauseAnnotations.
const PausedAnnotation = "clusterfx.dev/paused"

// Options name a pipeline. Only Name is required.
type Options[O client.Object] struct {
	// Name is part of the finalizer, field manager, controller and value group: a DNS label, unique among pipelines
	// for the same objects. It must not change while objects have the finalizer.
	Name string

	// Conditions returns status.conditions, a list with the map key type, in a status that is a subresource. Default:
	// the status is not written.
	Conditions func(obj O) []metav1.Condition
	// ConditionPrefix begins the types Ready, Reconciling and Stalled, as in DNSReady, for objects with several
	// pipelines. Default: none.
	ConditionPrefix string
	// Events records when conditions change to a ReasonError, or to why a deletion keeps the finalizer; without
	// Conditions each time. Default: the manager's recorder with AddTo and Module, else none.
	Events events.EventRecorder

	// Resync is when an unchanged object, or a canceled deletion, is reconciled again, plus up to a tenth. It bounds
	// the backoff of a deletion that keeps the finalizer. Default: 5 minutes.
	Resync time.Duration
	// ReverseOnDelete deletes in the opposite order. Default: false.
	ReverseOnDelete bool
	// PauseAnnotations also pause an object when their value is "true".
	PauseAnnotations []string

	// ControllerOptions configure the controller of AddTo and Module. Timeout bounds a pass, by default that of the
	// manager or else 1 minute. An event that a predicate of Build drops waits for Resync.
	ControllerOptions
}

// ControllerOptions configure the controller of a pipeline.
type ControllerOptions = hubcontroller.ControllerOptions

const (
	defaultResync  = 5 * time.Minute
	defaultTimeout = time.Minute
)

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
	o.Resync = cmp.Or(o.Resync, defaultResync)
	o.PauseAnnotations = slices.Concat(o.PauseAnnotations,
		[]string{PausedAnnotation, "cluster.x-k8s.io/paused", "operatorkit.giantswarm.io/paused"})
	return o, nil
}

func (o Options[O]) identity() string { return Prefix + o.Name }
