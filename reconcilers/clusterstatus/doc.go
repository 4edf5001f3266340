// SPDX-License-Identifier: Apache-2.0

/*
Package clusterstatus builds the status of a Cluster from its credentials and the registry's snapshot of its remote. It reads and
writes nothing, so that a program without a hub can explain the same status.

Of copies the registry's conditions, adds advice that names fields and annotations of the Cluster (advice.go), makes them agree
(agreed), and sums them up as Ready, Reconciling and Stalled (ready.go): the first on the way to Ready that is not True is its
reason. In the state Warm Reconciling is True, and ModulesReady is Unknown (Starting), or Stale while an informer cannot list and
watch: first Unknown, then False.

Ours returns, of a status that was read, what Of sets, for a comparison; Merged puts it back. status.inventory and other conditions belong to others.
*/
package clusterstatus
