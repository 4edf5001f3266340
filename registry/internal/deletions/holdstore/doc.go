// SPDX-License-Identifier: Apache-2.0

/*
Package holdstore keeps the holds of deletes in a ConfigMap of the hub, one key for each, so that a restart of the hub does
not end them. The ConfigMap is for the hub and for people who look at it; a hold that cannot be decoded is an error, because
a hold that is forgotten would let the deletes pass.

Replicas that share the Clusters of a hub use one ConfigMap. Each writes the keys of its own holds. A replica takes over the hold
of another with a compare-and-swap of the whole ConfigMap, so that one of them succeeds.

An operator allows deletes with an annotation of the ConfigMap, or of the Cluster that the deletes are in.
*/
package holdstore
