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

// Tracer starts spans. A nil Tracer starts none, at the cost of a comparison. The outcome of a span is a reason and
// never an error's text, which may repeat a URL; the text is in the log, under the same cluster and reconcileID.
type Tracer struct {
	tracer  trace.Tracer
	options TracerOptions
}

// TracerOptions read errors and contexts for spans.
type TracerOptions struct {
	// RequestReason returns ReasonCanceled for a canceled request.
	RequestReason func(error) string
	// Module returns the module of a request, if known.
	Module func(context.Context) (module string, known bool)
}

// ReasonCanceled is not recorded as an error.
const ReasonCanceled = "Canceled"

const instrumentation = "github.com/clusterfx/clusterfx/registry"

// EpochKey and the keys below are also keys of the log.
const EpochKey = attribute.Key("epoch")

const (
	moduleKey      = attribute.Key("module")
	reconcileIDKey = attribute.Key("reconcileID")
	resultKey      = attribute.Key("result")
)

// NewTracer returns a Tracer, or nil for a nil provider.
func NewTracer(p trace.TracerProvider, o TracerOptions) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{tracer: p.Tracer(instrumentation), options: o}
}

// Start starts a span about a remote. The caller must end the span.
func (t *Tracer) Start(
	ctx context.Context, name, cluster string, more ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if t == nil {
		return ctx, noop.Span{}
	}
	all := append(make([]attribute.KeyValue, 0, 1+len(more)), attribute.String(ClusterLabel, cluster))
	return t.tracer.Start(ctx, name, trace.WithAttributes(append(all, more...)...))
}

// Fail records why an operation failed, or that it was canceled.
func Fail(span trace.Span, reason string) {
	if reason != ReasonCanceled {
		span.SetStatus(codes.Error, reason)
	}
	span.SetAttributes(attribute.String("error.type", reason))
}

// End ends a span, and records the reason of the error.
func End(span trace.Span, err error, reason func(error) string) {
	if err != nil && span.IsRecording() {
		Fail(span, reason(err))
	}
	span.End()
}

// FailRequest is Fail for a request.
func (t *Tracer) FailRequest(span trace.Span, err error) {
	if t != nil {
		Fail(span, t.options.RequestReason(err))
	}
}

// StartReconcile starts the span of a reconcile. The caller must call EndReconcile.
func (t *Tracer) StartReconcile(ctx context.Context, cluster, module string, epoch int64) (context.Context, trace.Span) {
	if t == nil {
		return ctx, noop.Span{}
	}
	return t.Start(ctx, "reconcile", cluster, moduleKey.String(module), EpochKey.Int64(epoch),
		reconcileIDKey.String(string(controller.ReconcileIDFromContext(ctx))))
}

// EndReconcile ends it. outcome is the label result of the metrics.
func EndReconcile(span trace.Span, outcome string, err error) {
	if span.IsRecording() {
		span.SetAttributes(resultKey.String(outcome))
		if err != nil {
			Fail(span, outcome)
		}
	}
	span.End()
}
