// SPDX-License-Identifier: Apache-2.0

/*
Package hubcontroller is what the controllers of the hub (cluster, registration, renewal) share: options, logger, events, and
patches that fail on a conflict. They write the same objects, so they must use one field manager and treat a stale cache alike.

Controller makes a pipeline or a guard a controller of an App's manager, with parts that modules contribute to a value group: its
name may be used again, each reconcile has a deadline, each object a backoff, and registry.Supervise is around it.
*/
package hubcontroller
