// SPDX-License-Identifier: Apache-2.0

/*
Package helddeletes shows the holds of deletes that are in force in a hub, and allows their deletes.

# How it works

The hub keeps its holds in a ConfigMap, which the package reads; a hub need not run. An operator allows deletes with an
annotation: of the Cluster if the hold is of one remote, and of the ConfigMap if it is of the hub or of all clusters. The
hub reads both.

# Considerations

The number in the annotation is what the hold allows in all, so that the hub may read it any number of times. The command
takes the number of further deletes. It adds that to what the hold has allowed, which the ConfigMap has and, until the hub
has read it, the annotation. Without a number it allows the deletes that are known. That is a total, so that two operators
who do so at the same time allow them once.
*/
package helddeletes
