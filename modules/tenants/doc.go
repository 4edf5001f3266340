// SPDX-License-Identifier: Apache-2.0

/*
Package tenants gives each tenant of a platform a namespace in the remotes that are meant for it.

A tenant is an entity in the NATS bucket tenants (see package entity), which a portal writes:

	{"clusters": {"matchLabels": {"region": "eu"}}, "admins": ["jane@example.com"], "quota": {"cpu": "20", "memory": "64Gi"}}

Its key is its name, a DNS label. Each remote whose Cluster has the labels gets a Namespace tenant-<name>, and in it a ResourceQuota,
a RoleBinding of the ClusterRole admin, which is empty without admins, and a NetworkPolicy that admits the traffic of the tenant's own
Pods alone. The status of the tenant, in the bucket tenants-status, says for each remote whether it is there.

A tenant that is deleted, or whose selector no longer selects a remote, loses its namespace there, with everything in it; a remote
that is away at that moment follows when it is back. A Cluster that is deleted loses its part of the status, and the namespaces in
the remote stay. While the tenant has the state Suspended, its quota admits no Pods.

The module runs in the remotes that spec.modules of the Cluster or the configuration of the hub selects, and needs the module nats.
It is a model for modules with entities.
*/
package tenants
