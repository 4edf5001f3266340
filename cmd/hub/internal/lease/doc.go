// SPDX-License-Identifier: Apache-2.0

/*
Package lease acquires and renews the lease that elects the active hub, and says at every moment whether this one may write.

	candidacy, err := lease.New(lease.Options{Config: config, Namespace: ns, Name: name, Identity: me, ...})
	guarded.Wrap(candidacy.Guard)       // the hub's own clients
	registry.Options{Gate: func(registry.ClusterName) (int64, error) { return 0, candidacy.Check() }, ...}
	ctrl.Options{LeaderElection: true, LeaderElectionResourceLockInterface: candidacy.Turn(), ...}
	go candidacy.Run(ctx)
	<-candidacy.Lost()                  // stop everything, and begin another candidacy
	candidacy.GiveBack(stopping)        // or, after ctx has ended and everything has stopped

Without a manager, Ask takes the place of Turn. A Candidacy gets the lease once.

Check is open while the last successful renewal began no longer ago than RenewDeadline. A candidate waits for LeaseDuration, which
is longer, after it saw that renewal: so LeaseDuration - RenewDeadline lies between the writes of two holders. client-go alone
does not guarantee that: a process that was frozen for longer finds out at its next renewal, and writes for RenewDeadline
meanwhile. The monotonic clock decides; the wall clock closes the gate, too, since the other may stand still while the machine
sleeps. Another holder's name, or an empty one that this hub did not write, closes it for good. A hub without progress
(Options.Alive) does not renew. The gate cannot recall a request that was on its way.

The election is client-go's, observed at its lock; controller-runtime's manager sees a turn in memory. A manager that loses its
own election leaves its runnables behind, or releases the lease while they run; one that is stopped waits for them. The lease has
a connection of its own, and a timeout of half of RenewDeadline leaves time for a second request.
*/
package lease
