// SPDX-License-Identifier: Apache-2.0

/*
Package names makes the names of downstream objects from the names of upstream objects. It has no client.

The published form is vcluster's, byte for byte, so that a fleet can change its tool and keep its names:

	<name>-x-<namespace>-x-<tenant>      more than 63 bytes: 52 bytes, a hyphen, 10 hex digits of a SHA-256

It has two flaws. Different objects can have one name (a in b-x-c, and a-x-b in c), and 40 bits are too few: whoever chooses
names finds two with one hash in a second. The unique form has neither:

	<at most 40 readable bytes>-<22 hex digits>

The digits are 88 bits of a SHA-256 of the scope and the parts, each with its length. The result is a DNS label.

OfNamespaced and OfClusterScoped return the names to try. The published form comes first if it can be split in one way only:
-x- occurs as often as it was inserted, overlaps counted. Separators within the known prefix and tenant do not count. The
unique form comes last. If another copy has a name, as its marks show, the caller must try the next. A unique form never
equals a hashed name: its eleventh character from the end is a digit. It could equal an unhashed one only for a tenant named
after the digits, which depend on the tenant.

All names have at most 63 bytes, since values of labels often repeat them.
*/
package names
