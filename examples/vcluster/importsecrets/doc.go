// SPDX-License-Identifier: Apache-2.0

/*
Package importsecrets is the example import-secrets of vcluster-sdk: a Secret of the host, which is downstream, is copied to
the tenant if an annotation names its copy there. The annotation is the name To here.

The name of a copy is in the object, and no translator knows it. Therefore the tenant is upstream, and the copies are made by
an UpSyncer, for objects that do not belong to the pair. A Secret with an annotation that cannot be parsed is skipped. If the
annotation changes, the copy moves, and if it is removed, the copy is deleted; the original keeps the old copy of a Secret that
moves. A copy whose type changes, or that is immutable, is made again; the original does not update these. A Secret of the
tenant that has the name of a copy stays as it is, as in the original.

	original    import-secrets, v0.5.3    191 lines
	this one    importsecrets.go           72 lines
*/
package importsecrets
