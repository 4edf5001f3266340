// SPDX-License-Identifier: Apache-2.0

/*
Package lease acquires and renews the lease that elects the active hub, and reports at every
moment whether this one may write.

# Usage

	candidacy, err := lease.New(lease.Options{Config: config, Namespace: ns, Name: name, Identity: me, ...})
	guarded.Wrap(candidacy.Guard)       // the hub's own clients
	registry.Options{Gate: func(registry.ClusterName) (int64, error) { return 0, candidacy.Check() }, ...}
	ctrl.Options{LeaderElection: true, LeaderElectionResourceLockInterface: candidacy.Turn(), ...}
	go candidacy.Run(ctx)

	select {
	case <-candidacy.Lost():            // stop everything, and begin another candidacy
	case <-ctx.Done():                  // stop everything, and then
		candidacy.GiveBack(stopping)
	}

Without a manager, Ask takes the place of Turn. A Candidacy is for one term: it gets the lease once, and when that is lost it stays lost.

# The gate

Check is open only between the first renewal and the loss of the lease, and only while the last
successful renewal began no longer ago than RenewDeadline. A candidate that waits for the lease waits for
LeaseDuration, which is longer, after it saw that renewal. So between the last write of one holder
and the first of the next one lies LeaseDuration - RenewDeadline, unless a write takes that long to
arrive.

The leader election of client-go alone does not guarantee that. A process that is frozen for longer
than LeaseDuration and then resumes has been deposed while it was frozen; client-go detects that
at the next renewal, and retries for RenewDeadline. The rest of the process
continues meanwhile, with thousands of writes. The gate checks the clock instead, before each write.

The gate reads two clocks. The monotonic clock decides, which no administrator sets. It may stand still while
the machine sleeps, though, and the wall clock does not; so the gate also closes when the renewal is too old by
the wall clock, and a step of the wall clock closes it until the next renewal, a moment later.

A renewal counts from its beginning, because only the API server knows when it took effect. Another
holder's name in the lease closes the gate at once and permanently, as does an empty name that this
hub did not write.

A hub that makes no progress does not renew its lease either (Options.Alive). Its gate closes after RenewDeadline, and
another hub takes over unless this hub recovers before.

# Why it is built this way

The election is client-go's; this package observes its calls of the lock. controller-runtime's manager
does not see the lease, only a turn: a lock in memory that the manager acquires once the hub holds the
lease, and keeps. A manager that loses its own election returns at once and leaves its runnables
behind, and a manager whose runnables do not end in time releases the lease while they run. A manager
that is merely stopped waits for them, and the caller that stopped it releases the lease with GiveBack.

The lease has a client of its own: its own connection, so that no other traffic of the hub delays a
renewal, and a timeout of half of RenewDeadline, so that one request without a response leaves time
for a second one. A connection on which a request timed out is not used again.

The gate refuses requests before they are sent. It cannot recall a request that was sent: a request that was on its
way past the gate when the process froze arrives when it resumes.
*/
package lease
