// SPDX-License-Identifier: Apache-2.0

/*
Package assembly adds a pipeline or a guard to an App: it becomes a controller of the App's manager, with parts that
modules contribute to a value group.

Both have the same configuration, so this package implements its consequences once: a controller whose name may be
used again, because an App may be built again in the same process; a bounded time for each reconcile; a separate
backoff for each object; and registry.Supervise around the reconciler.
*/
package assembly
