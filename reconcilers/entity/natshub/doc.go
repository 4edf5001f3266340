// SPDX-License-Identifier: Apache-2.0

/*
Package natshub is the hub's connection to NATS: one for the process, which the apps of all remotes share, with one copy of each
bucket that a module follows.

	func setUp(p registry.Remote, nats *natshub.Connection) error {
		tenants, err := nats.Follow("tenants")
		if err != nil {
			return err
		}
		_, err = entity.Add(entity.NewStore(tenants, entity.JSON(validate)), ...)
		return err
	}

The connection is retried without end. A hub runs while NATS is away; without Options.URL its buckets are never complete, and
bucket.Health.Err says why. Nothing is buffered: a write fails, and its reconcile tries again, since a buffered one would be sent
after the hub has lost its lease. So each write asks registry.Options.Gate right before, and carries the revision it replaces.

Identities of buckets are in a ConfigMap of the hub, so that a restore while no hub ran is noticed; hub entity accept accepts
one. Parts of the status of deleted Clusters are removed when the status is complete.
*/
package natshub
