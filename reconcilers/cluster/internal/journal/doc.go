// SPDX-License-Identifier: Apache-2.0

/*
Package journal records which apps a hub is starting, so that the next process of the hub knows which apps were being started
when the last process ended.

The records are in a fixed number of ConfigMaps, each with the records of a part of the fleet (parts.go): a hash of the UID of
a Cluster names its part. One goroutine writes the parts that have changed, each whole (writer.go). So no ConfigMap grows with
the fleet, and hubs that share a fleet by the same hash can each keep the parts of their Clusters. What the ends of processes
say about an app follows from its record alone (crashes.go) and is tested without an API server.

An end makes no app guilty: the process may have been killed. An app that was being started at three ends in a row starts
alone, and has ended the process if that ends then, and if another app has started in it before: without that, the hub itself
is the suspect.

The registry uses a journal through registry.Journal when it starts apps, package cluster through Suspicion, Acquit and
Forget when it posts the desired state of an app.
*/
package journal
