// SPDX-License-Identifier: Apache-2.0

/*
Package process is the running hub: one fx App for the management cluster, from the preflight to the last stop hook.

# Usage

	err := process.Run(ctx, process.Options{Config: config, Modules: modules})

Package app documents the options; the command run fills them in from flags.

# Parts of a hub

The hub is one fx App. It holds a controller-runtime manager for the management cluster, the
registry that runs one more App per remote, and the reconciler that feeds Cluster objects to the registry.
The hub part of every module is an App of its own, which the registry runs, too. parts.go has the list.

# Life

Run first binds its addresses, and reads from the API server the id of the cluster and whether it serves
Cluster objects; a hub that cannot work reports why and does not start. The manager runs in a goroutine
that fx starts last and stops first (runner.go). Hub parts are built before that and started by it; the state of a hub
part that cannot be built or started, or that fails, is reported, the registry retries it, and the hub works without it.
A manager that ends by itself ends the hub.

The registry is a runnable that needs the lease. When the hub is asked to stop, all apps have ended
before the lease is released, and the next leader never meets an app of this one. That takes less
than the 30 s that Kubernetes waits, whatever the remotes do: an app that has not ended within
Registry.Limits.StopTimeout is abandoned.

# Terms

A hub with leader election lives in terms (term.go), and a term corresponds to the epoch of a remote:
it owns everything that can act. It begins as a standby, whose App is complete and whose caches are
filled, but whose runnables that need the lease wait. It ends when the hub is stopped, or when the
lease is lost: because another hub has it, or because it could not be renewed.

	standby ──lease──> leader ──stopped──> everything ends, the lease is released, Run returns
	   ^                  │
	   └─ a new term ─────┘ lease lost: the gate closes, everything ends

Every request of the hub passes a gate that refuses mutating requests unless this hub is the leader at
that moment; internal/lease defines when that is. The gate is before the wire of every client of the hub
itself (client.Client, the recorder of events, *rest.Config) and of every app. So a standby cannot
write, neither can the remains of a term that has ended, and a process that was frozen writes nothing
when it resumes unless it still has the lease. The error is "this hub is not the leader". Events
are dropped.

After a lost lease Run builds a new App, in the same process: constructors, invokes and hooks of
hub parts run again, and their registrations (collectors, checks, handlers, indexes) are removed with the old
term. Before that the hub waits until the API server is healthy, since a lost lease mostly means that it was not; the hub
is alive and not ready meanwhile. Only where a part of the old term has not stopped in time,
Run returns an error, and the process has to end: two Apps must not act at once.

A hub without Options.Election has one term and no gate. It continues to work while its API server is
away (watchretry.go), and catches up afterwards.

# Modes

A hub whose remotes are shared by several replicas begins to work when the installation has the Lease of leader mode, and a hub
with Options.Election is a candidate for that Lease when all replicas have ended: see package mode. Both are ready while they wait,
and /readyz?verbose names what they wait for.

# Leaderships

In a hub whose remotes are shared by several replicas, each replica works, and one of them leads: it runs what runs once, which
is registration and the hub parts OnLeader. The component leadership (leadership.go) elects it by a lease of its own, with the
name of the hub's lease and the suffix -leader, while it has the Lease of a replica. A leadership is less than a term: its loss
ends what runs once, and nothing else. A replica is a candidate again when that has ended, or has not within
Registry.Limits.StopTimeout; then it is fenced.
Registration has a manager for each leadership (onleader.go), whose clients write no longer than that.

In a hub of one active replica Options.leader is nil, and registration belongs to the hub's manager.

# Considerations

Run does not touch the global state of the process: signals, klog, the global loggers of controller-runtime and
fx. Two hubs can run in one test. That is why the App waits for fx.Shutdowner by other means than App.Wait of fx, which
would take over SIGINT and SIGTERM (shutdown.go).

The addresses of metrics and health belong to Run, not to a term (internal/serving), so that Kubernetes does not restart
a process that starts over.

The lease is kept outside of the manager, which only learns when it is the leader. A manager that
loses its own election returns without waiting for its runnables, so that it would be unknown
when the last of them has ended.
*/
package process
