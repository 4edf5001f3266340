// SPDX-License-Identifier: Apache-2.0

/*
Package tracing exports a hub's traces with OpenTelemetry's protocol (OTLP), as the standard environment
variables of OpenTelemetry say. Without them there is nothing: no goroutine, no connection, no provider.

# Usage

	traces, err := tracing.Start(ctx, tracing.Options{Version: version, Replica: replica, Log: log})
	defer traces.Stop(ctx)
	options.Traces = traces.Provider()

# How to enable it

	OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   where the collector is
	OTEL_TRACES_EXPORTER                                                otlp: on; none: off

and OTEL_SDK_DISABLED=true turns it off again. OpenTelemetry's own default is to export to a collector on
localhost; here the operator has to enable the export. OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc. The rest
(headers, certificates, timeouts, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME,
limits of spans) is read and documented by OpenTelemetry's SDK.

# Considerations

A collector must not slow a hub down. Spans go into a queue of a fixed length, and the
exporter drops spans while the queue is full. The end of a hub waits for the last spans for StopTimeout at most.

The hub logs once that a collector does not respond, and once that it responds again, not with every batch.

Contexts are not sent along: there is no propagator, whatever OTEL_PROPAGATORS says, since the Pods of many
clusters have that variable for other reasons than remotes. Package registry says why.

The exporters are imported one by one. The package of OpenTelemetry that chooses among all that there are
(autoexport) includes the exporters of metrics and logs, and a second Prometheus exporter: 1.3 MB of the binary
and nine modules for a switch of ten lines.

Nothing here is global to the process: neither the provider nor the error handler of OpenTelemetry are set, so
that two hubs can run in a test.
*/
package tracing
