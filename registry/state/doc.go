// SPDX-License-Identifier: Apache-2.0

/*
Package state holds the desired state of a remote and its status: a [Desired] goes into the registry with Ensure, and
a [Status] comes back. Registry, machine and package watch share it. It does not know the Cluster API:
reconcilers/cluster makes a Desired of a Cluster and its Secret, and reconcilers/clusterstatus makes conditions of a
Status, with advice by their [Problem]. The reasons are the same on both sides.
*/
package state
