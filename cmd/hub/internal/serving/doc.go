// SPDX-License-Identifier: Apache-2.0

/*
Package serving serves a hub's metrics, its health and, on loopback, what is for debugging.

# Usage

	ports, err := serving.Listen(ctx, serving.Options{Metrics: ":8080", Health: ":8081", Gatherer: g, Log: log})
	defer ports.Close()

	site := serving.NewSite()           // for each term
	site.AddReadyzCheck("caches", filled)
	ports.Show(site)
	defer ports.Show(nil)

# How it works

The ports belong to the process, and what is behind them to a term of the hub. So an address is taken
once, before the hub does anything, and while the hub starts over after it lost its lease, /healthz
and /metrics go on answering: nobody restarts it for that. /readyz fails while there is no
site.

A Site has the methods of a manager that add checks and handlers. Unlike those of a manager, they may be called
at any time: a hub part that failed before it added its check adds it when it is started again. Notes on what
does not work and does not make the hub unready are shown by /readyz?verbose.

What is for debugging (profiles, flags) is served on loopback alone, where kubectl port-forward reaches it and
nobody else in the cluster. It belongs to the process, too, so that a hub that stands by or starts over can be
looked at.

Neither /healthz nor /readyz depends on whether remotes answer: a hub whose remotes are down is a healthy hub. /healthz
fails while a goroutine of the hub makes no progress (registry/liveness).
*/
package serving
