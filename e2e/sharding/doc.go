// SPDX-License-Identifier: Apache-2.0

/*
Package sharding tests several replicas of a hub that share its Clusters: whole hubs in processes of their own, which are killed,
frozen, cut off from their API server, drained, added and removed, while a module writes to each remote all the time.

Each write to a remote has the number of the permission with which it was sent in its user agent. The remotes' API servers write
an audit log, and judge_test.go reads from it that no write of an earlier permission follows one of a later permission.
*/
package sharding
