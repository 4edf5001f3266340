// SPDX-License-Identifier: Apache-2.0

/*
Package logging makes the hub's one logger, leads every other logger of the process to it, and exports the hub's traces by OTLP.

	out := logging.NewBuffer(os.Stderr)
	defer out.Close()
	log := logging.New(out, logging.Options{})
	logging.Route(log)
	traces, err := logging.StartTraces(ctx, logging.TraceOptions{Version: version, Replica: replica, Log: log})
	defer traces.Stop(ctx)

New is a logr.Logger over zap: JSON lines, or text on a terminal. Route is for the program alone, since klog and
controller-runtime have one logger per process. FX shows fx's events for debugging only: a thousand apps have tens of
thousands.

A log without a reader must not stop the hub: a pipe takes 64 KiB. So a Buffer holds a MiB, and as much on its way,
drops and counts the rest, and delays the end by a second at most. What is written to stderr directly still waits for
the reader, as does the stack trace of a panic. A killed process loses the lines in the Buffer. Nothing is sampled: a
thousand ready clusters are a thousand lines of equal text. Kubernetes objects are shortened to their names, so that
no Secret's content gets into a log.

These variables enable traces, OTEL_SDK_DISABLED=true turns them off, and OpenTelemetry's SDK reads the rest; without them there is
no goroutine, connection or provider:

	OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT   where the collector is
	OTEL_TRACES_EXPORTER                                                otlp: on; none: off
	OTEL_EXPORTER_OTLP_PROTOCOL                                         http/protobuf or grpc

A collector must not slow a hub down: the queue of spans is bounded, and the end waits StopTimeout at most. Its failure is logged
once, as is its return. There is no propagator, since Pods have OTEL_PROPAGATORS for other reasons than remotes. autoexport is not
used: it would add 1.3 MB and nine modules.
*/
package logging
