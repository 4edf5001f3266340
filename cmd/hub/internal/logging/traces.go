// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

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

// TraceOptions say who exports.
type TraceOptions struct {
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

// StartTraces begins to export traces if the environment enables it, else returns nil. It does not contact the collector. An
// invalid variable is an error that names it.
func StartTraces(ctx context.Context, o TraceOptions) (*Traces, error) {
	protocol, err := fromEnvironment()
	if err != nil || protocol == "" {
		return nil, err
	}
	about, err := resourceFor(ctx, o)
	if err != nil {
		return nil, err
	}
	inner, err := newExporter(ctx, protocol)
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

func resourceFor(ctx context.Context, o TraceOptions) (*resource.Resource, error) {
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

// All other variables are the SDK's to read.
const (
	disabledVar       = "OTEL_SDK_DISABLED"
	exporterVar       = "OTEL_TRACES_EXPORTER"
	endpointVar       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVar = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolVar       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVar = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	headersVar        = "OTEL_EXPORTER_OTLP_HEADERS"
	tracesHeadersVar  = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)

const (
	exporterOTLP = "otlp"
	exporterNone = "none"
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// fromEnvironment returns the protocol, or "" if traces are off.
func fromEnvironment() (protocol string, err error) {
	endpoint := os.Getenv(endpointVar) + os.Getenv(tracesEndpointVar)
	if strings.EqualFold(os.Getenv(disabledVar), "true") {
		return "", nil
	}
	switch exporter := os.Getenv(exporterVar); {
	case exporter == exporterNone, exporter == "" && endpoint == "":
		return "", nil
	case exporter != "" && exporter != exporterOTLP:
		return "", fmt.Errorf("%s=%q: use %s or %s", exporterVar, exporter, exporterOTLP, exporterNone)
	}
	for _, name := range []string{endpointVar, tracesEndpointVar} {
		if err := checkEndpoint(name, os.Getenv(name)); err != nil {
			return "", err
		}
	}
	for _, name := range []string{headersVar, tracesHeadersVar} {
		if err := checkHeaders(name, os.Getenv(name)); err != nil {
			return "", err
		}
	}
	protocol = cmp.Or(os.Getenv(tracesProtocolVar), os.Getenv(protocolVar), protocolHTTP)
	if protocol != protocolHTTP && protocol != protocolGRPC {
		return "", fmt.Errorf("%s or %s is %q: use %s or %s", protocolVar, tracesProtocolVar, protocol, protocolHTTP, protocolGRPC)
	}
	return protocol, nil
}

// checkEndpoint refuses what the SDK would ignore silently. The value may hold a password and is not repeated.
func checkEndpoint(name, value string) error {
	if value == "" {
		return nil
	}
	if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s is not a URL: write it as http://collector:4318, or https://collector:4318", name)
	}
	return nil
}

// checkHeaders refuses what the SDK would ignore and write to stderr, with the secret.
func checkHeaders(name, value string) error {
	for header := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(header) == "" {
			continue
		}
		key, text, found := strings.Cut(header, "=")
		_, err := url.PathUnescape(text)
		if !found || err != nil || !isHeaderKey(strings.TrimSpace(key)) {
			return fmt.Errorf("%s is not a list of headers: write it as name=value,name=value, "+
				"and encode characters of a value that are no letters or digits as in a URL (%%20 for a space)", name)
		}
	}
	return nil
}

func isHeaderKey(key string) bool {
	strange := func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII || strings.ContainsRune(`"(),/:;<=>?@[\]{}`+"\x7f", r)
	}
	return key != "" && !strings.ContainsFunc(key, strange)
}

// reporter says when the exporter stops working, and when it works again.
type reporter struct {
	sdktrace.SpanExporter
	log logr.Logger

	mu   sync.Mutex // protects lost; not held during an export
	lost int        // spans since the last export that worked
}

// ExportSpans logs errors itself.
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	r.mu.Lock()
	before := r.lost
	if r.lost = 0; err != nil {
		r.lost = before + len(spans)
	}
	r.mu.Unlock()
	switch {
	case err != nil && before == 0:
		r.log.Info("Traces cannot be exported; they are dropped until the collector takes them again", "error", short(err))
	case err == nil && before > 0:
		r.log.Info("Traces are exported again", "lost", before)
	}
	return nil
}

// maxError is in bytes; a collector may respond with a whole page.
const maxError = 256

func short(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}
