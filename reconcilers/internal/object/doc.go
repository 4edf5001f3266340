// SPDX-License-Identifier: Apache-2.0

/*
Package object is what pipeline, guard, syncer and entity share: the kind of an object, its finalizers, texts fit for
conditions, and to apply or delete exactly the object that was read.

Finalizers are changed by a merge patch with the UID and resourceVersion of the decision: server-side apply keeps one that another
manager owns as well, as after a restore, and creates an object that has just been deleted.
*/
package object
