// SPDX-License-Identifier: Apache-2.0

/*
Package process is the running hub: one fx App for the management cluster, from the preflight to the last stop hook. It has a
controller-runtime manager, the registry with an App per remote and per hub part, and the reconciler of Clusters (parts.go).

	err := process.Run(ctx, process.Options{Config: config, Modules: modules})

Run binds its addresses and asks the API server for the cluster's id and for Cluster objects; a hub that cannot work
says why and does not start. fx starts the manager last and stops it first (runner.go). A hub part that fails is
retried, and the hub works without it; a manager that ends by itself ends the hub. The registry needs the lease, so
that all apps have ended before the lease is released, within the 30 s of Kubernetes.

A hub with leader election lives in terms (term.go). A term owns everything that can act, and begins as a standby with
filled caches:

	standby ──lease──> leader ──stopped──> everything ends, the lease is released, Run returns
	   ^                  │
	   └─ a new term ─────┘ lease lost: the gate closes, everything ends

A gate before every client refuses writes unless this hub leads at that moment (package lease): neither a standby, nor
the remains of a term, nor a process that was frozen can write. After the loss of the lease Run waits for a healthy
API server and builds a new App in the same process, alive and not ready. If a part of the old term has not stopped in
time, Run returns an error: two Apps must not act at once. Without Options.Election there is one term and no gate; the
hub works while its API server is away (watchretry.go).

A hub whose replicas share the remotes works when the installation has the Lease of leader mode (package mode);
/readyz?verbose names what it waits for. One of the replicas leads, elected by a lease with the suffix -leader
(leadership.go), and runs registration (onleader.go) and hub parts that run Once. Losing that ends only these.

Run leaves the process's global state alone (signals, klog, loggers), so that two hubs can run in a test; App.Wait of fx would
take over signals (shutdown.go). Addresses belong to Run and not to a term, so that Kubernetes does not restart a process that
starts over. The lease is outside of the manager, which returns without its runnables when it loses its own election.
*/
package process
