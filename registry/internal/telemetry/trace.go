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

// Tracer starts the spans of a registry. A nil Tracer starts none: where no traces are collected, a span costs a comparison.
//
// A span has the operation, the remote, the duration and the outcome. The outcome is a reason and never the text of an error,
// because a text may repeat the URL of a request. The text is in the log, where the same cluster and reconcileID lead to it.
type Tracer struct {
	tracer  trace.Tracer
	options TracerOptions
}

// TracerOptions are the functions that read errors and contexts for a span.
type TracerOptions struct {
	// RequestReason returns the reason of the error of a request. It is ReasonCanceled if the request was canceled.
	RequestReason func(error) string
	// Module returns the module on whose behalf a request is sent, and whether it is known.
	Module func(context.Context) (module string, known bool)
}

// ReasonCanceled is the reason of an operation that was canceled. It is not recorded as an error.
const ReasonCanceled = "Canceled"

// instrumentation is the name of the instrumentation scope of the spans.
const instrumentation = "github.com/clusterfx/clusterfx/registry"

// EpochKey is the attribute with the epoch of an app. Like the keys below, it is also a key of the log.
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

// Fail records in a span why the operation failed, or that it was canceled.
func Fail(span trace.Span, reason string) {
	if reason != ReasonCanceled {
		span.SetStatus(codes.Error, reason)
	}
	span.SetAttributes(attribute.String("error.type", reason))
}

// FailRequest records in a span why a request failed, or that it was canceled.
func (t *Tracer) FailRequest(span trace.Span, err error) {
	if t != nil {
		Fail(span, t.options.RequestReason(err))
	}
}

// StartReconcile starts the span of a call of a module's reconciler. The caller must end the span with EndReconcile.
func (t *Tracer) StartReconcile(ctx context.Context, cluster, module string, epoch int64) (context.Context, trace.Span) {
	if t == nil {
		return ctx, noop.Span{}
	}
	return t.Start(ctx, "reconcile", cluster, moduleKey.String(module), EpochKey.Int64(epoch),
		reconcileIDKey.String(string(controller.ReconcileIDFromContext(ctx))))
}

// EndReconcile ends the span of a call of a reconciler. outcome is the label result of the metrics.
func EndReconcile(span trace.Span, outcome string, err error) {
	if span.IsRecording() {
		span.SetAttributes(resultKey.String(outcome))
		if err != nil {
			Fail(span, outcome)
		}
	}
	span.End()
}
