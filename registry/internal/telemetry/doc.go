// SPDX-License-Identifier: Apache-2.0

/*
Package telemetry has the metrics and the traces of the registry.

Metrics are the registry's own metrics about its apps: counters and durations of probes, starts, requests and
reconciles, and gauges of the content of the caches of apps. They belong to the registry and not to an app, because most
panics end the app that they happen in, and because two apps of a remote may follow each other without a gap.

A Tracer starts the spans of the registry and, with Requests, the spans of HTTP requests. A span names the remote and
the resource, and never the host, the query or the name of an object.

States are metrics that follow from the snapshots of the remotes and of the hub parts, at each scrape.

The package knows neither apps nor the registry: names are strings, and functions return the content of a cache and the
snapshots.
*/
package telemetry
