// SPDX-License-Identifier: Apache-2.0

/*
Package allocated knows which fields of Kubernetes' kinds an API server allocates, or a controller sets for its cluster alone. A
copy in another cluster leaves them out, and gets its own.

A field that a client has chosen stays: managedFields, which are written before an allocation, have an owner of it or of a part.
Entries of before-first-apply, another version or the status say nothing. A field that is not in the table (table.go) is
copied. Its sources are the strategies and admission plugins of kube-apiserver v1.36, and the controllers of
kube-controller-manager.
*/
package allocated
