// SPDX-License-Identifier: Apache-2.0

/*
Package journal records which apps a hub is starting, so that the next process of the hub knows with which apps the last
process crashed.

The records are in a fixed number of ConfigMaps, each with the records of a part of the fleet (parts.go): a hash of the UID of
a Cluster names its part. One goroutine writes the parts that have changed, each whole (writer.go). So no ConfigMap grows with
the fleet, and hubs that share a fleet by the same hash can each keep the parts of their Clusters. What an app that crashed
the hub has to expect, such as a quarantine, follows from its record alone (crashes.go) and is tested without an API server.

The registry uses a journal through registry.Journal when it starts apps, package cluster through Suspicion, Acquit and
Forget when it posts the desired state of an app.
*/
package journal
