// SPDX-License-Identifier: Apache-2.0

/*
Package evidence judges whether an object was deleted on purpose. A deletionTimestamp, or an event of a watch, does not say so:
definitions, Namespaces and owners take their objects with them. So one function judges for Clusters, their Secrets, the
parents of declared deletes, and tombstones. It reads live what an object depends on. If one of
those is deleted, too, only an object that was deleted in an earlier second was deleted on purpose.
*/
package evidence
