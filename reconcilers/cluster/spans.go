// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

type spans struct{ tracer trace.Tracer } // spans makes a span of each Reconcile of a Cluster. The zero value makes no spans.

func newSpans(p trace.TracerProvider) spans {
	if _, nowhere := p.(noop.TracerProvider); nowhere || p == nil {
		return spans{}
	}
	return spans{p.Tracer("github.com/clusterfx/clusterfx/reconcilers/cluster")}
}

// begin's end takes the result. The text of an error is in the log only, under the same reconcileID.
func (s spans) begin(ctx context.Context, cluster string) (spanned context.Context, end func(error)) {
	if s.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := s.tracer.Start(ctx, "reconcile", trace.WithAttributes(
		attribute.String("cluster", cluster), attribute.String("controller", "cluster"),
		attribute.String("reconcileID", string(controller.ReconcileIDFromContext(ctx))),
	))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "error")
		}
		span.End()
	}
}
