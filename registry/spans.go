// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// spans begins the spans of a registry. A nil one begins none: where nobody collects traces they cost a
// comparison.
//
// A span says what was done for which remote, how long it took and how it went. What went wrong is said by
// a reason, never by the text of an error: a text may repeat the URL of a request, and is in the log, where
// the same cluster and reconcileID lead to it.
type spans struct{ tracer trace.Tracer }

// instrumentation is what the spans of this package call their origin.
const instrumentation = "github.com/clusterfx/clusterfx/registry"

// Keys of attributes. They are those of the log.
const (
	moduleKey      = attribute.Key("module")
	epochKey       = attribute.Key("epoch")
	reconcileIDKey = attribute.Key("reconcileID")
	resultKey      = attribute.Key("result")
)

func newSpans(p trace.TracerProvider) *spans {
	if p == nil {
		return nil
	}
	return &spans{tracer: p.Tracer(instrumentation)}
}

// begin begins a span about a remote. The caller ends it.
func (s *spans) begin(
	ctx context.Context, name string, about ClusterName, more ...attribute.KeyValue,
) (context.Context, trace.Span) {
	if s == nil {
		return ctx, noop.Span{}
	}
	all := append(make([]attribute.KeyValue, 0, 1+len(more)), attribute.String(clusterLabel, string(about)))
	return s.tracer.Start(ctx, name, trace.WithAttributes(append(all, more...)...))
}

// stage does a part of the app's start within a span.
func (e *epoch) stage(ctx context.Context, name string, f func(context.Context) error) (err error) {
	ctx, span := e.spans.begin(ctx, name, e.name, epochKey.Int64(e.number))
	defer func() { endWith(span, err) }()
	return f(ctx)
}

// endWith ends a span of which err came. What was ended from outside has not failed.
func endWith(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		failed(span, reasonOf(err))
	}
	span.End()
}

// failed notes why what a span is about has failed, or that it was ended from outside.
func failed(span trace.Span, reason string) {
	if reason != reasonCanceled {
		span.SetStatus(codes.Error, reason)
	}
	span.SetAttributes(attribute.String("error.type", reason))
}

// reasonOf returns one of the reasons that a Facet may have, for any error of an app.
func reasonOf(err error) string {
	var ofModule *moduleError
	var ofRemote *remoteError
	switch {
	case isCanceled(err):
		return reasonCanceled
	case errors.As(err, &ofModule), errors.Is(err, errManagerEnded):
		return describe(err).reason
	case errors.As(err, &ofRemote):
		return reasonOfRequest(ofRemote)
	case errors.Is(err, ErrNotReady):
		return "NotReady"
	case errors.Is(err, ErrNotFound):
		return "NotFound"
	}
	return "Error"
}

// reasonOfRequest is reasonOf for the error of a request to a remote.
func reasonOfRequest(err error) string {
	if isCanceled(err) {
		return reasonCanceled
	}
	reason, _ := kubeconfig.Classify(err)
	return reason
}

// reasonCanceled is that of what did not fail, but was not wanted any more.
const reasonCanceled = "Canceled"

func isCanceled(err error) bool {
	return errors.Is(err, ErrStopped) || errors.Is(err, ErrReplaced) || errors.Is(err, context.Canceled)
}

// beginReconcile begins the span of a call of a module's reconciler.
func (g *guard) beginReconcile(ctx context.Context) (context.Context, trace.Span) {
	s := g.life.spans
	if s == nil {
		return ctx, noop.Span{}
	}
	return s.begin(ctx, "reconcile", g.life.name, moduleKey.String(g.module), epochKey.Int64(g.life.number),
		reconcileIDKey.String(string(controller.ReconcileIDFromContext(ctx))))
}

// endReconcile ends it with the outcome that the metrics have, too.
func endReconcile(span trace.Span, result reconcile.Result, err error) {
	if !span.IsRecording() {
		span.End()
		return
	}
	outcome := outcomeOf(result, err)
	span.SetAttributes(resultKey.String(outcome))
	if err != nil {
		failed(span, outcome)
	}
	span.End()
}
