// SPDX-License-Identifier: Apache-2.0

/*
Package claims records which remote represents which cluster, so that no cluster has two apps: of two names for one
cluster, the name that was registered first has the claim, whichever of them is contacted first.

The package is the place to change when several processes share a fleet. It knows ids and names only: the registry probes
a remote that loses its claim, and reports the loss in the state of the remote.
*/
package claims
