// SPDX-License-Identifier: Apache-2.0

/*
Package holds is the form of the holds of deletes in the hub's cluster: the entries of the ConfigMap in which the hub keeps
them, and the value of the annotation with which an operator allows deletes. The hub and the command line use it, so that
both agree on every field.
*/
package holds
