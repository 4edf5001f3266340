// SPDX-License-Identifier: Apache-2.0

/*
Package allocated knows which fields of the kinds of Kubernetes an API server allocates, or a controller of its cluster sets for that
cluster alone. A copy in another cluster leaves them out, and gets its own.

A field that somebody has chosen is no allocation: it is left in if the managedFields of the object have an owner of the field or of a
part of it. The API server writes managedFields before it allocates, so they name who has chosen a value and not who has got one. An
entry of before-first-apply, of another version or of the status says nothing.

The table (table.go) has no other use than that: a field that is not in it is always copied. Its sources are the strategies and admission
plugins of kube-apiserver v1.36, and the controllers of kube-controller-manager.
*/
package allocated
