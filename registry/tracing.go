// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// tracerFor returns the tracer of a registry, or nil for a nil provider.
func tracerFor(p trace.TracerProvider) *telemetry.Tracer {
	return telemetry.NewTracer(p, telemetry.TracerOptions{RequestReason: reasonOfRequest, Module: func(ctx context.Context) (string, bool) {
		if g := contain.GuardOf(ctx); g != nil {
			return g.Module, true
		}
		return "", false
	}})
}

// stage runs a part of the start of the app within a span.
func (e *epoch) stage(ctx context.Context, name string, f func(context.Context) error) (err error) {
	ctx, span := e.tracer.Start(ctx, name, string(e.name), telemetry.EpochKey.Int64(e.number))
	defer func() { endWith(span, err) }()
	return f(ctx)
}

// endWith ends the span of an operation that returned err. A canceled operation has not failed.
func endWith(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		telemetry.Fail(span, reasonOf(err))
	}
	span.End()
}

// reasonOf returns the reason of any error of an app. Reasons are the reasons of conditions.
func reasonOf(err error) string {
	var ofModule *moduleError
	var ofRemote *remoteError
	switch {
	case isCanceled(err):
		return telemetry.ReasonCanceled
	case errors.As(err, &ofModule), errors.Is(err, errManagerEnded):
		return describe(err).Reason
	case errors.As(err, &ofRemote):
		return reasonOfRequest(ofRemote)
	case errors.Is(err, ErrNotReady):
		return "NotReady"
	case errors.Is(err, ErrNotFound):
		return "NotFound"
	}
	return "Error"
}

// reasonOfRequest returns the reason of the error of a request to a remote.
func reasonOfRequest(err error) string {
	if isCanceled(err) {
		return telemetry.ReasonCanceled
	}
	reason, _ := kubeconfig.Classify(err)
	return reason
}

func isCanceled(err error) bool {
	return errors.Is(err, ErrStopped) || errors.Is(err, ErrReplaced) || errors.Is(err, context.Canceled)
}
