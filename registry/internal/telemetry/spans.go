// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Tracer begins the spans of a registry. A nil one begins none: where nobody collects traces they cost a
// comparison.
//
// A span says what was done for which remote, how long it took and how it went. What went wrong is said by
// a reason, never by the text of an error: a text may repeat the URL of a request, and is in the log, where
// the same cluster and reconcileID lead to it.
type Tracer struct {
	tracer  trace.Tracer
	reading TracerOptions
}

// TracerOptions say what a span has of an error and a context.
type TracerOptions struct {
	// RequestReason returns the reason of the error of a request, reasonCanceled for what was ended from outside.
	RequestReason func(error) string
	// Module returns the module on whose behalf a request is sent, and whether it is known.
	Module func(context.Context) (string, bool)
}

// instrumentation is what the spans of this package call their origin.
const instrumentation = "github.com/clusterfx/clusterfx/registry"

// Keys of attributes. They are those of the log.
const (
	moduleKey      = attribute.Key("module")
	EpochKey       = attribute.Key("epoch")
	reconcileIDKey = attribute.Key("reconcileID")
	resultKey      = attribute.Key("result")
)

func NewTracer(p trace.TracerProvider, o TracerOptions) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{tracer: p.Tracer(instrumentation), reading: o}
}

// Start begins a span about a remote. The caller ends it.
func (s *Tracer) Start(
	ctx context.Context, name, about string, more ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if s == nil {
		return ctx, noop.Span{}
	}
	all := append(make([]attribute.KeyValue, 0, 1+len(more)), attribute.String(ClusterLabel, about))
	return s.tracer.Start(ctx, name, trace.WithAttributes(append(all, more...)...))
}

// Fail notes why what a span is about has failed, or that it was ended from outside.
func Fail(span trace.Span, reason string) {
	if reason != ReasonCanceled {
		span.SetStatus(codes.Error, reason)
	}
	span.SetAttributes(attribute.String("error.type", reason))
}

// FailRequest notes why a request has failed that a span is about.
func (s *Tracer) FailRequest(span trace.Span, err error) {
	if s != nil {
		Fail(span, s.reading.RequestReason(err))
	}
}

// StartReconcile begins the span of a call of a module's reconciler.
func (s *Tracer) StartReconcile(ctx context.Context, about, module string, epoch int64) (context.Context, trace.Span) {
	if s == nil {
		return ctx, noop.Span{}
	}
	return s.Start(ctx, "reconcile", about, moduleKey.String(module), EpochKey.Int64(epoch),
		reconcileIDKey.String(string(controller.ReconcileIDFromContext(ctx))))
}

// EndReconcile ends it with the outcome that the metrics have, too.
func EndReconcile(span trace.Span, outcome string, err error) {
	if span.IsRecording() {
		span.SetAttributes(resultKey.String(outcome))
		if err != nil {
			Fail(span, outcome)
		}
	}
	span.End()
}

// ReasonCanceled is that of what did not fail, but was not wanted any more.
const ReasonCanceled = "Canceled"
