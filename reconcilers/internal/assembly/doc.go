// SPDX-License-Identifier: Apache-2.0

/*
Package assembly makes a pipeline or a guard a controller of an App's manager, with parts that modules contribute to a value
group: its name may be used again, each reconcile has a deadline, each object a backoff, and registry.Supervise is around it.
*/
package assembly
