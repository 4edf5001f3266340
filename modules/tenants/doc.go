// SPDX-License-Identifier: Apache-2.0

/*
Package tenants gives each tenant of a platform a namespace in the remotes that are meant for it. It is a model for modules with
entities, and needs the module nats. A tenant is an entity in the NATS bucket tenants, which a portal writes under its name:

	{"clusters": {"matchLabels": {"region": "eu"}}, "admins": ["jane@example.com"], "quota": {"cpu": "20", "memory": "64Gi"}}

Each remote whose Cluster has the labels gets a Namespace tenant-<name> with a ResourceQuota, which admits no Pods while the tenant
is Suspended, a RoleBinding of the ClusterRole admin, and a NetworkPolicy that admits the tenant's own Pods alone. A tenant that is
deleted or no longer selects a remote loses its namespace there, with everything in it. When a Cluster is deleted, its namespaces
stay.
*/
package tenants
