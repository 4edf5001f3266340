// SPDX-License-Identifier: Apache-2.0

/*
Package helddeletes shows the holds of deletes in force, and allows their deletes. It reads the hub's ConfigMap, and
writes an annotation of the Cluster if the hold is of one remote, else of the ConfigMap; the hub need not run.

The number in the annotation is a total, so that the hub may read it any number of times. The command takes a number
of further deletes and adds it to what the ConfigMap and the annotation have. Without a number it allows those that
are known, so that two operators at once allow them once.
*/
package helddeletes
