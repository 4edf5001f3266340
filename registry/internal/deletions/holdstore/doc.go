// SPDX-License-Identifier: Apache-2.0

/*
Package holdstore keeps the holds of deletes over a restart, in a ConfigMap of the hub, a key for each. A hold that
cannot be decoded is an error, because forgetting it would let deletes pass. Replicas share the ConfigMap: each writes
its own keys, and takes over another's hold by a compare-and-swap of the whole. An operator allows deletes with an
annotation of the ConfigMap or of the Cluster.
*/
package holdstore
