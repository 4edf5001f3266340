// SPDX-License-Identifier: Apache-2.0

/*
Package translate maps names and metadata of objects between the clusters of a pair. It sends no requests.

	NewNamespaced   name-x-namespace-x-tenant in the target namespace
	NewCluster      prefix-name-x-namespace-x-tenant, without a namespace
	NewMirror       the same name, and the same namespace or the target namespace

These are vcluster's names; package names says what replaces one that is ambiguous or taken. No name is translated back: the
marks have the original's name, and count only if ToDownstream of it contains the name of the copy.

The marks have the prefix Identity.KeyPrefix:

	label       managed-by                         the tenant; without a namespace also the target namespace
	label       namespace                          the namespace of the original
	label       controlled-by                      on an original: another controller manages it, and it has no copy
	annotation  object-name, object-namespace,     the original
	            object-uid, object-kind
	annotation  object-host-name,                  the copy itself: an object that was made from a copy with its metadata
	            object-host-namespace              names another one
	annotation  managed-labels,                    the keys that come from the original, one in each line
	            managed-annotations
	annotation  applied-fields                     a hash of the paths of the fields that the pair applies
	annotation  object-generation                  the generation of the original that the copy has

Other labels and annotations are copied, but for those of one cluster (keys.go) and excluded ones. What only the copy has
stays there.
*/
package translate
