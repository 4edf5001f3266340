// SPDX-License-Identifier: Apache-2.0

/*
Package ledger counts what modules delete and create, and holds back the deletes of a module that loses too much. It
has no clock, no client and no goroutine.

The loss of a module, resource and target is what was deleted in the last ten minutes less what was created, and never
less than 0. A delete that would exceed the limit of the target, or of all targets together, is refused. Replacing
costs nothing, since creating pays; a source that looks empty creates nothing. Creating does not pay for objects that
are kept for what is in them, such as PersistentVolumeClaims.

If a module says how many objects it owns, the loss is at most half of the largest number of the last ten minutes, and
at least 1. An object's delete counts once, by its UID, also if it is repeated while finalizers keep the object. A
delete counts before it is sent, so that simultaneous ones cannot exceed the limit together; a refusal takes it back,
an unknown outcome does not.

A cause is a thing that exists and asks for deletes. Each has windows, limits and a hold of its own; all together may
lose five times the limits, and within these none is held alone. Deletes without a cause count apart.

The first delete beyond a limit makes a hold: every delete of that module, resource and cause is refused there, or
everywhere for the fleet's limit, while all else continues. It ends when the module has not asked for ten minutes, or
an operator allows a number of deletes by its id, which is used once. The caller must store a hold before it refuses;
counts are not stored. Each process has a Ledger, so a fleet with N processes loses up to N times the limit.
*/
package ledger
