// SPDX-License-Identifier: Apache-2.0

/*
Package fieldset decides whether an object already has what server-side apply would set, so that no request is sent. A write is
needed in three cases:

  - The set of fields has changed (Hash), since apply removes what it no longer sets. The hash is an annotation, of paths only: one
    of values would let its readers test guesses of a Secret.
  - A value differs (Contains).
  - The object has more where only the schema tells whose that is (More): one write lets the API server decide.

A map contains another if it has its keys. Numbers are compared by value, since decoders make an int64, a float64 or a json.Number
of one text; quantities are strings. A desired null, empty map or empty list may be absent, since API servers drop them. So
the removal of an empty field, such as emptyDir: {}, is not found.

The types of lists are in the schema only. Without it:

  - A list of scalars is equal to the desired one; finalizers are a set.
  - A list of maps with keys, such as a container's name or an owner's uid, contains the desired elements in their order, and may
    have others, as an injected sidecar. An element with a kind and a name is a reference and has no key.
  - Another list of maps has the same length, and contains its elements by index.

Paths name a field, such as spec.containers[0].image, with the keys of maps (of a Secret's data, too), without values, and with
indexes in the desired list.
*/
package fieldset
