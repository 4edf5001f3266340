// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// StopTimeout is for the last spans.
const StopTimeout = 2 * time.Second

// ServiceName is the default of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
const ServiceName = "clusterfx-hub"

// Options say who exports.
type Options struct {
	// Version and Replica go into every trace. Default: left out.
	Version, Replica string
	// Log gets a line when the collector rejects traces, and when it accepts them again. Default: discards.
	Log logr.Logger
}

// Traces is an export that runs. Nil is none.
type Traces struct {
	provider *sdktrace.TracerProvider
	exporter *reporter
	log      logr.Logger
}

// Start begins to export traces if the environment enables it, else returns nil. It does not contact the collector. An
// invalid variable is an error that names it.
func Start(ctx context.Context, o Options) (*Traces, error) {
	wanted, err := fromEnvironment()
	if err != nil || !wanted.on {
		return nil, err
	}
	about, err := resourceFor(ctx, o)
	if err != nil {
		return nil, err
	}
	inner, err := newExporter(ctx, wanted.protocol)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w", err)
	}
	exporter := &reporter{SpanExporter: inner, log: o.Log}
	return &Traces{
		provider: sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(exporter)),
		exporter: exporter, log: o.Log,
	}, nil
}

// Provider may be nil.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Stop exports pending spans, within StopTimeout, also when ctx has ended. What the collector does not take is lost.
func (t *Traces) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Info("The last traces were not exported", "error", short(err))
		_ = t.exporter.Shutdown(ctx) // It ends the request that is under way, for which the provider waits in vain.
	}
}

func newExporter(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

func resourceFor(ctx context.Context, o Options) (*resource.Resource, error) {
	about := []attribute.KeyValue{attribute.String("service.name", ServiceName)}
	if o.Version != "" {
		about = append(about, attribute.String("service.version", o.Version))
	}
	if o.Replica != "" {
		about = append(about, attribute.String("service.instance.id", o.Replica))
	}
	all, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(about...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: write it as key=value,key=value: %w", err)
	}
	return all, nil
}
