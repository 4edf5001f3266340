// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// environment sets these variables, and clears the other variables of traces.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
	} {
		t.Setenv(name, set[name])
	}
}

const somewhere = "http://collector.invalid:4318"

//nolint:paralleltest // It sets variables.
func TestStart_IsOffUnlessItIsWanted(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"nothing is said":      {},
		"none is said":         {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": somewhere},
		"the SDK is disabled":  {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": somewhere},
		"only a protocol said": {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, set)
			before := runtime.NumGoroutine()
			traces, err := logging.StartTraces(t.Context(), logging.TraceOptions{})
			if err != nil || traces != nil || traces.Provider() != nil {
				t.Errorf("traces are on: %v, %v", traces, err)
			}
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines, %d before", after, before)
			}
			traces.Stop(t.Context())
		})
	}
}

//nolint:paralleltest // It sets variables.
func TestStart_Refuses(t *testing.T) {
	for name, tc := range map[string]struct {
		set  map[string]string
		says string
	}{
		"another exporter": {map[string]string{"OTEL_TRACES_EXPORTER": "jaeger"}, "use otlp or none"},
		"another protocol": {
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			"use http/protobuf or grpc",
		},
		"what is no URL":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
		"what is no attribute": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": somewhere, "OTEL_RESOURCE_ATTRIBUTES": "sesame"}, "OTEL_RESOURCE_ATTRIBUTES"},
		"a header without a value": {
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": somewhere, "OTEL_EXPORTER_OTLP_HEADERS": "a=b,Bearer open"},
			"OTEL_EXPORTER_OTLP_HEADERS is not a list of headers",
		},
		"a header without a name": {
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": somewhere, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "Bearer open="},
			"OTEL_EXPORTER_OTLP_TRACES_HEADERS is not a list of headers",
		},
		"a header that is badly encoded": {
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": somewhere, "OTEL_EXPORTER_OTLP_HEADERS": "key=open%zz"},
			"OTEL_EXPORTER_OTLP_HEADERS is not a list of headers",
		},
		"another kind of server": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "unix:///sesame"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, tc.set)
			traces, err := logging.StartTraces(t.Context(), logging.TraceOptions{})
			if err == nil || traces != nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v", traces, err)
			}
			if err != nil && strings.Contains(err.Error(), "open") {
				t.Errorf("the error repeats a value that may be secret: %v", err)
			}
			traces.Stop(t.Context())
		})
	}
}

// Valid headers are accepted.
//
//nolint:paralleltest // It sets variables.
func TestStart_TakesHeaders(t *testing.T) {
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": somewhere, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20a=, x-tenant = b,",
	})
	traces, err := logging.StartTraces(t.Context(), logging.TraceOptions{})
	if err != nil || traces == nil {
		t.Errorf("got %v, %v", traces, err)
	}
	traces.Stop(t.Context())
}

// grpcCollector counts spans, or refuses them.
type grpcCollector struct {
	coltracepb.UnimplementedTraceServiceServer
	spans   atomic.Int64
	refuses atomic.Bool
}

func (c *grpcCollector) Export(_ context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	if c.refuses.Load() {
		return nil, status.Error(codes.InvalidArgument, "no")
	}
	for _, of := range r.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			c.spans.Add(int64(len(scope.GetSpans())))
		}
	}
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// A failure of the collector is logged once, and its recovery once, over gRPC, too.
//
//nolint:paralleltest // It sets variables.
func TestStart_GRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, collector := grpc.NewServer(), &grpcCollector{}
	coltracepb.RegisterTraceServiceServer(server, collector)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
	})
	var said lines
	traces, err := logging.StartTraces(t.Context(), logging.TraceOptions{Log: funcr.New(said.add, funcr.Options{})})
	must(t, err)
	export := func() {
		t.Helper()
		_, span := traces.Provider().Tracer("test").Start(t.Context(), "one")
		span.End()
		flusher, ok := traces.Provider().(interface{ ForceFlush(context.Context) error })
		if !ok {
			t.Fatal("the provider has no ForceFlush")
		}
		if err := flusher.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	export()
	collector.refuses.Store(true)
	export()
	export()
	collector.refuses.Store(false)
	export()
	traces.Stop(t.Context())
	testkit.Equal(t, collector.spans.Load(), 2, "spans arrive")
	want := []string{"Traces cannot be exported", "Traces are exported again\" \"lost\"=2"}
	if len(said.all) != len(want) {
		t.Fatalf("the log is %q", said.all)
	}
	for i, text := range want {
		if !strings.Contains(said.all[i], text) {
			t.Errorf("the log has %s, want %s", said.all[i], text)
		}
	}
}

// lines are the logged lines, of one goroutine at a time.
type lines struct{ all []string }

func (l *lines) add(_, text string) { l.all = append(l.all, text) }

// The end of the export is bounded if the collector accepts connections and never responds, and the log says what is lost.
//
//nolint:paralleltest // It sets variables.
func TestStop_IsBounded(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // The kernel accepts, and no process reads.
	must(t, err)
	t.Cleanup(func() { _ = hole.Close() })
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + hole.Addr().String()})
	var said lines
	traces, err := logging.StartTraces(t.Context(), logging.TraceOptions{Log: funcr.New(said.add, funcr.Options{})})
	must(t, err)
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "one")
	span.End()
	began := time.Now()
	traces.Stop(t.Context())
	if took := time.Since(began); took > logging.StopTimeout+5*time.Second {
		t.Errorf("the end takes %s, want %s at most", took, logging.StopTimeout)
	}
	if !strings.Contains(strings.Join(said.all, "\n"), "The last traces were not exported") {
		t.Errorf("the log is %q", said.all)
	}
}
