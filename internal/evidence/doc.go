// SPDX-License-Identifier: Apache-2.0

/*
Package evidence judges whether an object was deleted on purpose.

A deletionTimestamp, or an event of a watch, does not say so: the API server deletes each object of a kind with the
CustomResourceDefinition, the namespace controller each object of a Namespace, and the garbage collector each object of an owner. A
deletion of one of those rarely means what a controller would delete next. So one function judges for all: for Clusters, the Secrets
that register them, the parents of declared deletes, and the tombstones of hub objects and of the syncer. It reads live what an object
depends on, and only an answer of the API server is evidence.

An object that was deleted before its definition or Namespace was deleted on purpose; one that was deleted in the same second or
later was not.
*/
package evidence
