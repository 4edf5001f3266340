// SPDX-License-Identifier: Apache-2.0

/*
Package serving serves the metrics and the health of a hub and, on loopback, its pages for debugging.

# Usage

	ports, err := serving.Listen(ctx, serving.Options{
		Metrics: ":8080", Health: ":8081", Gatherer: g, Log: log,
		Debug: "127.0.0.1:6060", Pages: serving.Pages(serving.PagesOptions{Component: "hub", Version: version, Flags: flags}),
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

# Pages for debugging

	/debug/pprof/   profiles, as net/http/pprof has them
	/statusz        since when the hub runs, and its version
	/flagz          the values of its flags

The last two have the plain text of the pages of the same name in the components of Kubernetes
(KEP-4827 and KEP-4828), whose code is a part of the API server's library and imports all of it. As there, the
format is for people and may change. The pages belong to the process, too, so that a hub that stands by or starts over
can be inspected.

# Considerations

A reader of these pages sees the command line, the names of all clusters and where the hub spends its
time, and can make it spend time. So the port is on loopback, where kubectl port-forward reaches it and the other
Pods of the cluster do not, and the host of a request must be loopback, too: otherwise a web page in a browser on
the same machine could read it under a host name of its own (DNS rebinding).

Hidden are flags whose name says that they hold a secret, and the user, the password and the query of a URL.
No flag of the hub holds a secret; the flags of others' hubs may. /debug/pprof/cmdline shows the command line as it is.

There is no /configz. A configuration file holds flags and the configuration of modules, of which
only the module knows which values are secret.
*/
package serving
