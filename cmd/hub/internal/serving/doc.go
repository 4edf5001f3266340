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

The ports belong to the process, the Site to a term of the hub: while the hub starts over after the loss of its lease,
/healthz and /metrics respond, and the kubelet does not restart it. /readyz fails without a site. Checks and handlers
may be added at any time. Neither page depends on remotes: a hub whose remotes are down is healthy. /healthz fails
while a goroutine of the hub makes no progress (registry/liveness).

	/debug/pprof/   profiles, as net/http/pprof has them
	/statusz        since when the hub runs, and its version
	/flagz          the values of its flags

The last two have the text of Kubernetes (KEP-4827, KEP-4828), for people. Readers see the command line and can make
the hub spend time, so the port is on loopback, for kubectl port-forward, and the host of a request must be loopback,
too, against DNS rebinding. Hidden are flags whose names say that they hold a secret, and user, password and query of
URLs; /debug/pprof/cmdline hides nothing. There is no /configz: only modules know which of their values are secret.
*/
package serving
