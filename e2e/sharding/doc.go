// SPDX-License-Identifier: Apache-2.0

/*
Package sharding tests replicas of a hub that share its Clusters, as processes that are killed, frozen, cut off,
drained, added and removed, while a module writes to each remote. The user agent of each write has the number of its
permission, and judge_test.go reads from the audit logs that no earlier permission writes after a later one.
*/
package sharding
