// SPDX-License-Identifier: Apache-2.0

/*
Package translate maps names and metadata of objects between the clusters of a pair. It sends no requests.

# Names

	NewNamespaced   name-x-namespace-x-tenant in the target namespace
	NewCluster      prefix-name-x-namespace-x-tenant, without a namespace
	NewMirror       the same name, and the same namespace or the target namespace

These are the names of vcluster. A longer name is cut to 63 bytes, with a hash at its end. Two objects can have the same name
in this form; an object whose name is ambiguous has another one, with a readable beginning and a hash of 88 bits, and so has
an object whose name belongs to the copy of another object (ToDownstream). Names are not translated back: the marks of the copy
have the name of the original, and they count only if ToDownstream of that name contains the name of the copy.

# Marks

The prefix is Identity.KeyPrefix.

	label       managed-by                         the tenant; for objects without a namespace also the target namespace
	label       namespace                          the namespace of the original
	label       controlled-by                      on an original: another controller manages it, and it has no copy
	annotation  object-name, object-namespace,     the original
	            object-uid, object-kind
	annotation  object-host-name,                  the copy itself, so that an object that was made from a copy with its
	            object-host-namespace              metadata is recognized
	annotation  managed-labels,                    the keys that come from the original, one in each line
	            managed-annotations
	annotation  applied-fields                     a hash of the paths of the fields that the pair applies
	annotation  object-generation                  the generation of the original that the copy has

# Labels and annotations

Both are copied as they are, but for marks, for what programs write about one cluster (keys.go), and for reserved and excluded keys. Labels and annotations that only the copy has are
kept; a key that the original loses is removed from the copy. HashLabels replaces each key of a label with a hash.
*/
package translate
