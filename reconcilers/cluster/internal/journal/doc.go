// SPDX-License-Identifier: Apache-2.0

/*
Package journal records which apps a hub is starting, so that the next process of the hub knows with which apps the last
process crashed.

The records of all apps are one ConfigMap, which one goroutine writes whole (Journal). What an app that crashed the hub
has to expect, such as a quarantine, follows from its record alone (crashes.go) and is tested without an API server. A
hub has one journal; the key of the ConfigMap is a parameter, so that a hub that runs a part of a fleet can have a
journal of its own.

The registry uses a journal through registry.Journal when it starts apps, package cluster through Suspicion, Acquit and
Forget when it posts the desired state of an app.
*/
package journal
