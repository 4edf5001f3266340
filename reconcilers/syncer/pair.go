// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

var (
	// ErrInvalidConfig means that options cannot be used.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrForeign refuses a write to an object that is not the copy.
	ErrForeign = errors.New("the downstream object is not a copy of this pair")
	// ErrPanicked is the error that Starter.ReconcileEnd gets after a panic.
	ErrPanicked = errors.New("the reconcile panicked")
)

// PairOptions describe a pair. Upstream, Downstream, Manager, Name and Identity are required.
type PairOptions struct {
	// Name is a DNS label, unique in the process, for metrics, logs and field managers.
	Name string
	// Manager runs the controllers: the one that the module was given, of an app or a hub part.
	Manager ctrl.Manager
	// Upstream has the originals, Downstream the copies.
	Upstream, Downstream Side
	// Identity marks the copies of the pair.
	Identity Identity
	// OneToOne: no other pair copies the upstream objects. Each gets FinalizerOf(Identity) until its copy has gone,
	// so no deletion is missed. Otherwise the copy of an object that a live read does not find is deleted. Default:
	// false.
	OneToOne bool
	// Quote makes a downstream API server's text fit for an event, as Remote.Quote does. Default: events name
	// rejected fields only.
	Quote kubeconfig.Quoter
	// StatusLimiter limits the writes of status; the pairs of one remote share one, see NewStatusLimiter. Default:
	// one per pair.
	StatusLimiter *rate.Limiter
	// Metrics receives the metrics of the pair, until Close. Default: none.
	Metrics prometheus.Registerer
	// Cause has the limits of deletes for itself, with what it creates; see deletes.CausedBy. Default: none.
	Cause string
	// GiveUp is asked before a copy is deleted whose original exists, as it is not selected any more or its copy has moved: it may add
	// evidence to the context, or return how long to wait. It must not block for long. Default: nothing is added.
	GiveUp func(ctx context.Context) (with context.Context, wait time.Duration, err error)
	// Report gets the outcome of each reconcile, Refused is called when an API server refuses a watch, or does not serve the kind. Both
	// must return at once. Default: nothing is called.
	Report  func(Outcome)
	Refused func()
}

// Outcome is that of the last reconcile of an upstream object.
type Outcome struct {
	Key      types.NamespacedName
	Target   types.NamespacedName // Target is the name of the copy, or of the object that has it
	Selected bool                 // Selected: the object exists and is to have a copy
	Reason   string               // Reason of the last event about a problem; empty if there is none
	Refused  bool                 // Refused: an API server has forbidden a write
	Err      error                // Err may be nil with a Reason
}

// Pair is an upstream and a downstream cluster, between which Syncers keep objects in step.
type Pair struct {
	options PairOptions
	metrics *metrics
	events  events
}

func (p *Pair) cluster() string {
	return string(cmp.Or(p.options.Downstream.Cluster(), p.options.Upstream.Cluster()))
}

// NewPair sends no requests. The error wraps ErrInvalidConfig, unless Metrics refuses the metrics.
func NewPair(o PairOptions) (*Pair, error) {
	id, err := o.Identity.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: pair %s: %w", ErrInvalidConfig, o.Name, err)
	}
	o.Identity = id
	switch problems := validation.IsDNS1123Label(o.Name); {
	case len(problems) > 0:
		return nil, fmt.Errorf("%w: the name of pair %q: %s", ErrInvalidConfig, o.Name, strings.Join(problems, "; "))
	case o.Manager == nil:
		return nil, fmt.Errorf("%w: pair %s needs a Manager", ErrInvalidConfig, o.Name)
	case o.Upstream.IsZero(), o.Downstream.IsZero():
		return nil, fmt.Errorf("%w: pair %s needs an Upstream and a Downstream", ErrInvalidConfig, o.Name)
	}
	o.StatusLimiter = cmp.Or(o.StatusLimiter, NewStatusLimiter())
	m, err := newMetrics(o)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of pair %s: %w", o.Name, err)
	}
	return &Pair{options: o, metrics: m}, nil
}

// Close takes a pair whose work has ended out of the metrics.
func (p *Pair) Close() { p.metrics.close() }

func (p *Pair) giveUp(ctx context.Context) (context.Context, error) {
	if p.options.GiveUp == nil {
		return ctx, nil
	}
	with, wait, err := p.options.GiveUp(ctx)
	if err == nil && wait > 0 {
		err = &LaterError{After: wait, Why: "the copy is given up by a change that is young"}
	}
	return with, err
}

// Name returns the name of the pair.
func (p *Pair) Name() string { return p.options.Name }

// Identity returns the identity of the pair, with its defaults.
func (p *Pair) Identity() Identity { return p.options.Identity }

// Manager returns the manager that runs the controllers of the pair.
func (p *Pair) Manager() ctrl.Manager { return p.options.Manager }

// With calls f with access to both clusters. It does not wait for the network.
func (p *Pair) With(ctx context.Context, f func(ctx context.Context, up, down Access) error) error {
	return f(ctx, p.options.Upstream.Access(), p.options.Downstream.Access())
}

// fieldManager: there is one for each tenant and direction.
func (p *Pair) fieldManager(direction string) string {
	const limit = 128 // of Kubernetes
	id := p.options.Identity
	name := id.KeyPrefix + "/" + id.Tenant + "/" + direction
	if len(name) > limit {
		name = id.Tenant + "/" + direction
	}
	return name
}

const (
	directionDown = "down"
	directionUp   = "up"
)
