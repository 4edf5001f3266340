// SPDX-License-Identifier: Apache-2.0

/*
Package clusterstatus builds the status of a Cluster from what is known of its credentials and from the registry's
snapshot of its remote. It reads nothing but its arguments and writes nothing, so that a program without a hub can
build, and explain, the same status.

# Conditions

Of copies the conditions that the registry reports wherever possible, and completes them: it adds messages and
advice that name fields and annotations of the Cluster (advice.go), makes the conditions agree with each other (agreed), and sums them up as Ready,
Reconciling and Stalled (ready.go). The first condition on the way to Ready that is not True is the reason of Ready.

A remote in the state Warm is not Ready: ModulesReady, and so Ready, is Unknown with the reason Starting, or with Stale while
an informer cannot list and watch, and False with Stale if that continues. Reconciling is True.

# Ownership

The hub writes the conditions and fields that Of sets. Ours returns them from a status that was read, so that it can be
compared with the result of Of, and Merged puts them into it. status.inventory and conditions of other types belong to
other writers.
*/
package clusterstatus
