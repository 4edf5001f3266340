// SPDX-License-Identifier: Apache-2.0

/*
Package telemetry has the metrics and traces of the registry. Metrics belong to the registry and not to an app,
because most panics end the app, and two apps of a remote may follow without a gap. States are computed from snapshots
at each scrape. A Tracer starts spans, which name the remote and the resource, never the host, the query or an object.
*/
package telemetry
