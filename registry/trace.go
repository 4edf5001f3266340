// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// tracerFor returns the tracer of a registry, or nil for a nil provider.
func tracerFor(p trace.TracerProvider) *telemetry.Tracer {
	return telemetry.NewTracer(p, telemetry.TracerOptions{RequestReason: app.ReasonOfRequest, Module: func(ctx context.Context) (string, bool) {
		if g := contain.GuardOf(ctx); g != nil {
			return g.Module, true
		}
		return "", false
	}})
}

// endLease ends the span of a lease that returned err. A canceled lease has not failed.
func endLease(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		telemetry.Fail(span, reasonOfLease(err))
	}
	span.End()
}

func reasonOfLease(err error) string {
	switch {
	case errors.Is(err, ErrNotReady):
		return "NotReady"
	case errors.Is(err, ErrNotFound):
		return "NotFound"
	}
	return app.ReasonOf(err)
}
