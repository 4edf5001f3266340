// SPDX-License-Identifier: Apache-2.0

/*
Package tracing exports a hub's traces by OTLP, as OpenTelemetry's environment variables say. Without them there is no
goroutine, connection or provider.

	traces, err := tracing.Start(ctx, tracing.Options{Version: version, Replica: replica, Log: log})
	defer traces.Stop(ctx)
	options.Traces = traces.Provider()

These enable it; OTEL_SDK_DISABLED=true turns it off, and OpenTelemetry's SDK reads the rest:

	OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   where the collector is
	OTEL_TRACES_EXPORTER                                                otlp: on; none: off
	OTEL_EXPORTER_OTLP_PROTOCOL                                         http/protobuf or grpc

A collector must not slow a hub down: the queue of spans is bounded, and the end waits StopTimeout at most. Its
failure is logged once, as is its return. There is no propagator, since Pods have OTEL_PROPAGATORS for other reasons
than remotes. autoexport is not used: it would add 1.3 MB and nine modules. Nothing is global to the process.
*/
package tracing
