// SPDX-License-Identifier: Apache-2.0

/*
Package object contains the operations that the packages pipeline, guard, syncer and entity share: find the kind of an
object, change its finalizers, make texts fit for conditions, remove the finalizers from the objects of a remote that is
removed from the hub, and apply and delete exactly the object that was read.

It does not know passes or locks. Every change of finalizers is a merge patch with the UID and the resourceVersion of the
object on which the decision was made. Server-side apply would be shorter, and wrong for finalizers: it keeps a finalizer that
another field manager owns as well, as after a restore from a backup, and it creates an object that has just been
deleted.
*/
package object
