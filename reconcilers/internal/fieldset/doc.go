// SPDX-License-Identifier: Apache-2.0

/*
Package fieldset decides whether an object already has the fields that server-side apply would set, so that no request is sent
for an object that is as desired.

A write is needed in three cases:

  - The set of fields has changed, because apply removes the fields that it no longer sets. Hash finds this case. The hash is
    stored in an annotation of the object. It covers the paths of the fields and no values: a hash of values would let everyone
    who reads the annotation test guesses of the content of a Secret.
  - A value differs. Contains finds this case.
  - The object has more, in a place where only the schema tells whether that belongs to others. More finds this case: one write lets the
    API server decide, and what the answer leaves is no reason for another one.

# Containment

A map contains the desired map if it contains each desired key; other keys are defaults, or fields of other managers.

Numbers are compared by value, since JSON decoders make an int64, a float64 or a json.Number of the same text. Quantities are
strings: 1 and 1000m differ, and API servers keep the text of a quantity.

A desired field that is null, or is an empty map or list, may be absent. API servers drop such fields of most types while they
decode an object, so that a copy would never be as desired. The price is that the removal of an empty field is not found, such
as emptyDir: {}. An empty map is contained in every map, and null in everything, both with More; an empty list only in an empty list.

Lists have types that only the schema of a kind knows. Without a schema:

  - A list of scalars is equal to the desired list. The exception is a list with the key finalizers, which is a set.
  - A list of maps whose elements have a key, such as the name of a container or the uid of an owner, contains each desired
    element, in the same order. It may have other elements, as from an admission webhook that injects a sidecar: apply may
    keep them, and More has them. The keys are the fields that the API of Kubernetes uses as keys. An element with a kind and a name is a
    reference and has no key, so that an additional subject of a RoleBinding is found.
  - Another list of maps has the length of the desired list, and contains its elements at the same indexes.

# Paths

The path of a difference names a field, such as spec.containers[0].image, and contains no value. The keys of maps are part of
it, also the keys of the data of a Secret. Indexes count in the desired list.

The package is pure: it has no clock, no client and no goroutine of its own.
*/
package fieldset
