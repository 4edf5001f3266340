// SPDX-License-Identifier: Apache-2.0

/*
Package serving serves the metrics and the health of a hub and, on loopback, its profiles.

	checks := serving.NewChecks(metrics)
	checks.AddReadyzCheck("caches", filled)
	ports, err := serving.Listen(ctx, serving.Options{
		Metrics: ":8080", Health: ":8081", Debug: "127.0.0.1:6060", Checks: checks, Log: log,
	})
	defer ports.Close()

The ports are open from the begin of the process to its end. Checks and handlers may be added at any time. Neither page depends on
remotes: a hub whose remotes are down is healthy. /healthz fails while a goroutine of the hub makes no progress (registry/liveness).

	/debug/pprof/   profiles, as net/http/pprof has them

Readers of profiles see the command line and can make the hub spend time, so the port is on loopback, for kubectl port-forward, and
the host of a request must be loopback, too, against DNS rebinding.
*/
package serving
