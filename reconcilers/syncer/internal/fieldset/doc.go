// SPDX-License-Identifier: Apache-2.0

/*
Package fieldset decides whether an object already has the fields that server-side apply would set.

A write is needed if a value differs, which Contains finds, or if the set of fields has changed, because apply removes the
fields that it no longer sets, which Hash finds. The hash goes into an annotation of the object. It covers the paths of the
fields and no values: a hash of values would tell something about the content of a Secret to everybody who sees the
annotation.
*/
package fieldset
