// SPDX-License-Identifier: Apache-2.0

/*
Package state holds the desired state of a remote and its status: [Desired] goes into the registry with Ensure, and
[Status] comes back from it. They correspond to the spec and the status of a Kubernetes object.

The package imports only kubeconfig. Package registry, its state machine and package watch share it: the state machine
compares a Desired with the facts and makes a Status of them. The package does not know the Cluster API:
reconcilers/cluster translates a Cluster and its Secret to a Desired, and reconcilers/clusterstatus translates a Status to
the conditions of the Cluster, and adds advice to the messages by their [Problem]. The reasons have the same names on both
sides, which a test of reconcilers/cluster checks.

Module authors meet ClusterName and Status, and find both in package registry too.
*/
package state
