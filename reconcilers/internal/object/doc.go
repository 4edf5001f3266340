// SPDX-License-Identifier: Apache-2.0

/*
Package object has what package pipeline and package guard both do to the objects that they reconcile: find out
their kind, change their finalizers, make texts fit for conditions, and let objects go that a hub leaves behind.

It knows nothing of passes and locks. What it changes it changes by merge patch with the UID and the resourceVersion
of what was decided on. Server-side apply would be shorter, and wrong for finalizers: it leaves one that somebody else
owns, too, as after a restore from a backup, and creates an object that has gone in that moment.
*/
package object
