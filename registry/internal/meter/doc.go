// SPDX-License-Identifier: Apache-2.0

/*
Package meter estimates the memory of a decoded response while it is read: two bytes of protobuf can become a
container of 900. A Limiter, one for each app, limits single responses, and the rate at which they may become objects.
The meter of JSON goes by the text, that of protobuf by the Go types (Schemas); Sizeof is for objects. Tests and fuzz
targets compare every charge with the allocations of client-go's decoders.
*/
package meter
