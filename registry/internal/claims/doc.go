// SPDX-License-Identifier: Apache-2.0

/*
Package claims records which remote represents which cluster, so that no cluster has two apps: of two names for one
cluster, the name that was registered first has the claim, whichever of them is contacted first.

It knows ids and names only: the registry probes a remote that loses its claim, and reports the loss in the state of the
remote. Where several processes share a fleet, it knows the remotes of this process; the caller names an older remote of another
process (state.Identity.Rival).
*/
package claims
