// SPDX-License-Identifier: Apache-2.0

/*
Package deletes is how a module declares its deletes, and how it recognizes a delete that the hub holds.

The hub limits how many objects of a kind a module may delete within ten minutes: 20 in one cluster and 100 in all of them;
3 and 10 for kinds whose deletion takes the objects of others with it. Without the limit, a source that looks empty by
mistake would make a module delete everything that it has made. Objects that the module creates in the same time are
subtracted, so replacing objects is not limited. docs/how-it-works.md has the rules.

A module that deletes more than that for a reason declares it:

  - OnPurpose, with Evidence that the object is to be deleted. Such a delete is not limited.
  - Owning, with the number of objects that the module owns, so that a module with twelve objects does not lose
    all of them at once.
  - CausedBy, with the thing that asks for the delete, so that what one thing deletes holds nothing of another.
  - Limits, in the ModuleOptions, for a module that deletes many objects in its normal work.

A delete that is held returns an error that wraps ErrHeld. A supervised reconciler only returns it: the request is repeated
after 30 seconds, without an error in the log.
*/
package deletes
