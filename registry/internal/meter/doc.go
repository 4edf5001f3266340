// SPDX-License-Identifier: Apache-2.0

/*
Package meter estimates how much memory a response will take when it is decoded, while the response is read and before
objects are made of it. The size of a response says little: two bytes of protobuf can become a container of 900 bytes.

A Limiter belongs to one app. It limits the size of a single response and the rate at which responses of the app may become
objects. The meter of JSON charges by the structure of the text; the meter of protobuf follows the Go types that the message
is decoded to (see Schemas). Sizeof estimates the size of objects that exist.

Tests compare every charge with the allocations of client-go's decoders, and fuzz targets do so with generated input.
*/
package meter
