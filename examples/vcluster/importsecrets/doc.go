// SPDX-License-Identifier: Apache-2.0

/*
Package importsecrets is vcluster-sdk's example import-secrets: a Secret of the host, downstream, is copied to the tenant,
upstream, if the annotation To names its copy. The name is in the object, so no translator knows it and an UpSyncer makes the
copies. The copy moves or goes with the annotation, and is made again if its type changes or it is immutable; the original
does neither. A Secret of the tenant that has the name stays.

	original    import-secrets, v0.5.3    191 lines
	this one    importsecrets.go           70 lines
*/
package importsecrets
