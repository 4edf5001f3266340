// SPDX-License-Identifier: Apache-2.0

/*
Package ledger counts what the modules of a hub delete and create, and holds back the deletes of a module that loses too
much.

# The loss

A Ledger counts, for each module, resource and target cluster, the objects that the module has deleted in the last ten
minutes, less the objects of that resource that it has created there in the same time. The difference, never less than 0, is
the loss. A delete that would make the loss exceed the limit of the target, or the sum over all targets exceed the limit of
the fleet, is refused. Replacing objects costs nothing, since creating pays; a source that looks empty creates nothing. Creating does
not pay where objects are kept for what is in them, such as PersistentVolumeClaims.

A module that knows how many objects it owns in a target passes the number with the request. The loss is then also at most
half of the largest number of the last ten minutes, and at least 1, so that a module with twelve objects does not
delete all twelve at once, whether it counts them before each delete or once before all of them.

The delete of an object counts once, also if the module repeats it while finalizers keep the object. The request has the UID of the
object, or the caller learns it from the answer. A delete whose outcome is not known counts.

A delete is counted before it is sent, so that deletes at the same time cannot exceed the limit together, and is taken back
if the API server refuses it.

# Causes

A delete may have a cause: a thing that exists and asks for it. Each cause has windows and the limits for itself, and its Hold holds
that cause only. What all causes have lost together is at most five times the limits, and while it is within the limits no single
cause is held. Deletes without a cause count apart from these.

# Holds

The first delete beyond a limit makes a Hold. While it lasts, every delete of that module, resource and cause is refused in that
target, or in all targets if the limit of the fleet was exceeded; creates, updates, other resources and other modules
continue. A Hold ends by itself when the module has not asked for a held delete for ten minutes, because its source has come
back. An operator can allow a number of deletes by the id of the Hold. An id is used once, so an allowance for an old Hold
does not apply to the next.

The caller stores a Hold before it refuses the delete, and a Ledger begins with the stored Holds: a restart does not end a
Hold. The counts themselves are not stored. Where several processes share the targets of a hub, each has a Ledger, so the limit
of the fleet is that of each process: a fleet with N processes loses up to N times as much.

The package is pure: it has no clock, no client and no goroutine of its own.
*/
package ledger
