// SPDX-License-Identifier: Apache-2.0

/*
Package pullsecrets is vcluster-sdk's example pull-secret-sync: it copies the pull secrets of the host, upstream, to one namespace
of the tenant. The copy goes when the Secret does or its type no longer fits, and changes by the tenant are reverted, but for
labels that it adds. A Secret of the tenant that has the name stays, with an event NameConflict; the original overwrites it.

	original    pull-secret-sync, v0.4.2    192 lines
	this one    pullsecrets.go               18 lines
*/
package pullsecrets
