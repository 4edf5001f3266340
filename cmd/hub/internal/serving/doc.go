// SPDX-License-Identifier: Apache-2.0

/*
Package serving serves the metrics and the health of a hub and, on loopback, its profiles.

	ports, err := serving.Listen(ctx, serving.Options{
		Metrics: ":8080", Health: ":8081", Gatherer: g, Log: log,
		Debug: "127.0.0.1:6060",
	})
	defer ports.Close()

	site := serving.NewSite()           // for each term
	site.AddReadyzCheck("caches", filled)
	ports.Show(site)
	defer ports.Show(nil)

The ports belong to the process, the Checks to a term of the hub: while the hub starts over after the loss of its lease,
/healthz and /metrics respond, and the kubelet does not restart it. /readyz fails without a site. Checks and handlers
may be added at any time. Neither page depends on remotes: a hub whose remotes are down is healthy. /healthz fails
while a goroutine of the hub makes no progress (registry/liveness).

	/debug/pprof/   profiles, as net/http/pprof has them

Readers of profiles see the command line and can make the hub spend time, so the port is on loopback, for kubectl port-forward, and
the host of a request must be loopback, too, against DNS rebinding.
*/
package serving
