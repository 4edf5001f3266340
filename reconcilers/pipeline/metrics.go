// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WithMetrics returns resources whose operations are counted and timed:
//
//	clusterfx_pipeline_operations_total             counter, before each call
//	clusterfx_pipeline_operation_errors_total       counter, after each call that failed or panicked
//	clusterfx_pipeline_operation_duration_seconds   histogram, after each call
//
// with the labels service (the caller's), resource and operation. Applied after WithRetry it measures a call with all
// its tries, before WithRetry each try. In a remote's app, reg is the Metrics of registry.Remote. The error is reg's,
// or ErrInvalidConfig if reg is nil.
func WithMetrics[O client.Object](
	resources []Resource[O], reg prometheus.Registerer, service string,
) ([]Resource[O], error) {
	if reg == nil {
		return nil, fmt.Errorf("%w: metrics need a registerer", ErrInvalidConfig)
	}
	m, err := newMeasures(reg)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of %s: %w", service, err)
	}
	return wrap(resources, func(ctx context.Context, c Call[O], next func(context.Context) error) error {
		return m.measure([]string{service, c.Resource, string(c.Operation)}, func() error { return next(ctx) })
	}), nil
}

type measures struct {
	calls, failures *prometheus.CounterVec
	duration        *prometheus.HistogramVec
}

func newMeasures(reg prometheus.Registerer) (m measures, err error) {
	labels := []string{"service", "resource", "operation"}
	var errs [3]error
	m.calls, errs[0] = register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterfx_pipeline_operations_total",
		Help: "Operations of resources that were begun.",
	}, labels))
	m.failures, errs[1] = register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterfx_pipeline_operation_errors_total",
		Help: "Operations of resources that returned an error or panicked.",
	}, labels))
	m.duration, errs[2] = register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clusterfx_pipeline_operation_duration_seconds",
		Help: "How long operations of resources took.",
	}, labels))
	return m, cmp.Or(errs[:]...)
}

func register[T prometheus.Collector](reg prometheus.Registerer, collector T) (T, error) {
	err := reg.Register(collector)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if earlier, ok := registered.ExistingCollector.(T); ok {
			return earlier, nil
		}
	}
	return collector, err
}

func (m measures) measure(labels []string, do func() error) error {
	m.calls.WithLabelValues(labels...).Inc()
	failed, begin := true, time.Now()
	defer func() { // also if it panics
		m.duration.WithLabelValues(labels...).Observe(time.Since(begin).Seconds())
		if failed {
			m.failures.WithLabelValues(labels...).Inc()
		}
	}()
	err := do()
	failed = err != nil
	return err
}
