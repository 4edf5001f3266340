// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

var (
	// ErrInvalidConfig is the error of options that cannot be used.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrForeign is the error of a write to a downstream object that is not the copy of the upstream object.
	ErrForeign = errors.New("the downstream object is not a copy of this pair")
	// ErrPanicked is the error that Starter.ReconcileEnd gets after a panic.
	ErrPanicked = errors.New("the reconcile panicked")
)

// PairOptions describe a pair. Upstream, Downstream, Manager, Name and Identity are required.
type PairOptions struct {
	// Name names the pair in metrics, logs and field managers: a DNS label, unique in the process of the pair.
	Name string
	// Manager runs the controllers of the pair. It is the Manager that the module was given, of an app or a hub part.
	Manager ctrl.Manager
	// Upstream is the cluster of the originals, and Downstream the cluster of the copies.
	Upstream, Downstream Side
	// Identity marks the copies of the pair.
	Identity Identity
	// OneToOne says that this pair is the only one that copies the upstream objects. Then each of them gets a finalizer,
	// FinalizerOf(Identity), until its copy has gone: no deletion is missed. Otherwise, with many copies of one object,
	// objects get no finalizer, and the copy of an object that does not exist in a live read is deleted. Default: false.
	OneToOne bool
	// Quote makes a text of the downstream API server fit for an event, as Remote.Quote of package registry does. Default: events
	// name the fields that the API server rejects, and repeat none of its texts.
	Quote kubeconfig.Quoter
	// StatusLimiter limits the writes of status that the copies cause; see NewStatusLimiter. The pairs of one remote share one. Default: one
	// for the pair.
	StatusLimiter *rate.Limiter
	// Metrics receives the metrics of the pair. Default: none, they are not exported.
	Metrics prometheus.Registerer
}

// Pair is an upstream and a downstream cluster, between which Syncers keep objects in step.
type Pair struct {
	options PairOptions
	metrics *metrics
	events  events
}

// cluster returns the name of the Cluster that is one of the sides, or nothing.
func (p *Pair) cluster() string {
	return string(cmp.Or(p.options.Downstream.Cluster(), p.options.Upstream.Cluster()))
}

// NewPair returns a pair. It sends no requests. The error wraps ErrInvalidConfig, unless Metrics refuses the metrics, as it does
// for a second pair of the same name.
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

// Name returns the name of the pair.
func (p *Pair) Name() string { return p.options.Name }

// Identity returns the identity of the pair, with its defaults.
func (p *Pair) Identity() Identity { return p.options.Identity }

// Manager returns the manager that runs the controllers of the pair.
func (p *Pair) Manager() ctrl.Manager { return p.options.Manager }

// With calls f with access to both clusters. It does not wait for the network, and returns registry.ErrNotReady for a leased
// remote that is not Ready.
func (p *Pair) With(ctx context.Context, f func(ctx context.Context, up, down Access) error) error {
	return p.options.Upstream.Lend(ctx, func(ctx context.Context, up Access) error {
		return p.options.Downstream.Lend(ctx, func(ctx context.Context, down Access) error {
			return f(ctx, up, down)
		})
	})
}

func (p *Pair) fieldManager(direction string) string {
	return fieldManagerOf(p.options.Identity, direction)
}

// fieldManagerOf returns the field manager for writes to a side: there is one for each tenant and direction.
func fieldManagerOf(id Identity, direction string) string {
	const limit = 128 // of Kubernetes
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
