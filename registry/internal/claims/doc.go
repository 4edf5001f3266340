// SPDX-License-Identifier: Apache-2.0

/*
Package claims records which remote represents which cluster, so that no cluster has two apps: the name that was
registered first has the claim, whichever is contacted first. It knows the ids and names of this process; the caller
names an older remote of another (state.Identity.Rival).
*/
package claims
