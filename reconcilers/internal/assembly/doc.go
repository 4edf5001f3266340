// SPDX-License-Identifier: Apache-2.0

/*
Package assembly is how a pipeline or a guard becomes part of an App: as a controller of the App's manager, with
parts that modules contribute to a value group.

Both are configured alike, so what follows from the configuration is written once: a controller whose name may be used
again, because an App may be built anew in the same process; a bounded time for each reconcile; a backoff for each
object by itself; and registry.Supervise around the reconciler.
*/
package assembly
