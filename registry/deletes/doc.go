// SPDX-License-Identifier: Apache-2.0

/*
Package deletes is how a module declares its deletes, and recognizes one that the hub holds.

The hub limits how many objects of a kind a module deletes within ten minutes: 20 in one cluster and 100 in all; 3 and
10 for kinds that take objects of others with them. Otherwise a source that looks empty by mistake would make a module
delete everything that it has made. Created objects are subtracted. docs/how-it-works.md has the rules. A module that has
to delete more declares it:

  - OnPurpose, with Evidence that the object is to be deleted: not limited.
  - Owning, with the number of objects that it owns, so that a module with twelve does not lose all at once.
  - CausedBy, with what asks for the delete, so that one thing's deletes hold nothing of another.
  - Limits in the ModuleOptions, for a module that deletes many objects in its normal work.

A held delete returns an error that wraps ErrHeld. A supervised reconciler only returns it: the request is repeated
after 30 seconds, without an error in the log.
*/
package deletes
