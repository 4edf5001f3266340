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

The connection is made again without end, with a backoff. A hub runs while NATS is away, and a hub without Options.URL has a
Connection whose buckets are never complete: a module that needs NATS waits, and bucket.Health.Err says why.

A part of the status whose Cluster does not exist, in a read of the hub's API server, is removed when the status has become complete:
the Cluster may have been deleted while NATS was away.

Nothing is buffered while the connection is away: a write fails, and is tried again by the reconcile that made it. A write that
waited in a buffer would be sent after the hub has lost its lease. For the same reason each write asks registry.Options.Gate right
before it is sent, and carries the revision of the key that it replaces.

The identity of each bucket (see package bucket) is kept in a ConfigMap of the hub, so that a hub that starts recognizes a bucket
that was restored while it did not run. An operator accepts such a bucket
with hub entity accept, see Accept.
*/
package natshub
