// SPDX-License-Identifier: Apache-2.0

/*
Package serving serves the metrics and the health of a hub and, on loopback, its profiles.

# Usage

	ports, err := serving.Listen(ctx, serving.Options{
		Metrics: ":8080", Health: ":8081", Gatherer: g, Log: log,
		Debug: "127.0.0.1:6060",
	})
	defer ports.Close()

	site := serving.NewSite()           // for each term
	site.AddReadyzCheck("caches", filled)
	ports.Show(site)
	defer ports.Show(nil)

# How it works

The ports belong to the process, and the Site behind them to a term of the hub. So an address is bound
once, before the hub does anything, and while the hub starts over after it lost its lease, /healthz
and /metrics continue to respond: the kubelet does not restart the hub for that. /readyz fails while there is no
site.

A Site has the methods of a manager that add checks and handlers. Unlike the methods of a manager, they may be called
at any time: a hub part that failed before it added its check adds it when it is started again. /readyz?verbose shows
notes on failures that do not make the hub unready.

Neither /healthz nor /readyz depends on whether remotes respond: a hub whose remotes are down is a healthy hub. /healthz
fails while a goroutine of the hub makes no progress (registry/liveness).

# Considerations

A reader of profiles sees the command line, the names of all clusters and where the hub spends its
time, and can make it spend time. So the port is on loopback, where kubectl port-forward reaches it and the other
Pods of the cluster do not, and the host of a request must be loopback, too: otherwise a web page in a browser on
the same machine could read it under a host name of its own (DNS rebinding). The port belongs to the process, too, so that a hub that
stands by or starts over can be inspected.
*/
package serving
