// SPDX-License-Identifier: Apache-2.0

/*
Package names computes the names of copies in a downstream cluster.

The readable form is that of vcluster, so that a fleet can change its tool: the name, the namespace and the tenant, separated
by "-x-", and cut to 63 bytes with a hash of 40 bits. Two objects can have the same readable name: "a" in the namespace "b-x-c"
and "a-x-b" in "c", or two long names whose hashes are equal. So an object whose readable name could be read in two ways has
the unique form only, with a hash of 80 bits over all parts and their lengths; and any object has the unique form as its
second name, for a first name that belongs to the copy of another object. The copy itself says in its annotations whose copy
it is: no name is ever translated back without them.
*/
package names
