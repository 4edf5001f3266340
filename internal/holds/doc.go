// SPDX-License-Identifier: Apache-2.0

/*
Package holds is the form of held deletes in the hub's cluster, for the hub and the command line: the entries of a ConfigMap, one of
each Cluster and of each replica, and the annotation with which an operator allows deletes.
*/
package holds
