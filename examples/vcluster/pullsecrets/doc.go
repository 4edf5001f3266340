// SPDX-License-Identifier: Apache-2.0

/*
Package pullsecrets is the example pull-secret-sync of vcluster-sdk: it copies the pull secrets of the host to one namespace of
the tenant. The host is upstream.

A Secret whose type no longer fits takes its copy away, and so does a Secret that is deleted. A change by the tenant is
reverted. The original also overwrites a Secret of the tenant that has the name of a copy; here it stays, and the Secret of the
host gets an event NameConflict. The original removes labels that the tenant adds to a copy; here they stay.

	original    pull-secret-sync, v0.4.2    192 lines
	this one    pullsecrets.go               18 lines
*/
package pullsecrets
