// SPDX-License-Identifier: Apache-2.0

/*
Package compact keeps objects of a cache as protobuf messages. A decoded Pod takes five times the memory of its message,
most of it for fields that are not set.

Types packs objects: an object becomes an Object, which a cache keeps and reads like any other. Its DeepCopyObject decodes
the message, so each reader gets an object of its own, as from a cache of decoded objects. Decoding takes two to four times
as long as a deep copy; docs/performance.md has the figures. So it is an option of a hub.

Messages are encoded and decoded by the generated methods of the types of k8s.io/api. They are made in this process, after
the transforms of the cache, so no bytes of a remote are kept or decoded here. Objects whose types have no such methods stay
as they are: custom resources and unstructured objects, whose JSON takes ten times as long to decode as a deep copy.

A message without its metadata that several objects have is kept once (bodies.go), which the package unique of Go does. A
budget counts it in full for each remote.

The package knows neither informers nor caches.
*/
package compact
