// SPDX-License-Identifier: Apache-2.0

/*
Package names makes the names of downstream objects out of the names of upstream objects.

# The published form

Namespaced, ClusterScoped, Concat and LabelKey follow the rules that vcluster has published, byte for
byte, so that a fleet can change its tool and keep its names. The name of a namespaced object is

	<name>-x-<namespace>-x-<tenant>

and a name of more than 63 bytes is cut to 52 bytes, followed by a hyphen and the first 10 hex digits of its SHA-256. This form
has two flaws:

  - Different objects can have the same concatenation. The object a in the namespace b-x-c and the object a-x-b in the
    namespace c both become a-x-b-x-c-x-<tenant>.
  - Ten hex digits are 40 bits. Whoever may choose names finds two with the same hash in about a second.

# The unique form

UniqueNamespaced and UniqueClusterScoped have neither flaw:

	<at most 40 readable bytes>-<22 hex digits>

The digits are 88 bits of a SHA-256 over a tuple in which the length of each part is written before the part, so that two
different tuples are never the same bytes. The tuple includes the scope, and therefore an object without a namespace never
has the digits of a namespaced object. The result is a DNS label of at most 63 bytes, for every input.

# Candidates

OfNamespaced and OfClusterScoped return the names that the copy of an object may have, in the order in which a caller tries
them. The published form is the first one, but only if its concatenation can be split in one way: the separator -x- occurs in
it exactly as often as it was inserted. Occurrences that overlap are counted separately; a-x-x-b has two. The prefix and the
tenant are known, so separators within them do not count. The unique form is the last one, and the only one for all other
objects.

Two objects of one tenant therefore have the same first name only if their published names are hashed and the hashes collide.
The caller recognizes that by the marks of the object that it finds, and tries the next name. A unique form has another form
than a hashed name, because the eleventh character from its end is a hex digit and not a hyphen. It equals a published name
without a hash only for a tenant that is named after the digits, and whoever names a tenant cannot choose the digits, because
the name of the tenant is part of the tuple.

All candidates have at most 63 bytes, also for a kind that allows 253, because the values of labels often repeat names.

The package is pure: it has no clock, no client and no goroutine of its own.
*/
package names
