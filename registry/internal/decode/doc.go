// SPDX-License-Identifier: Apache-2.0

// Package decode keeps the text of remotes out of the errors of an app's clients. Decoders quote what they cannot decode:
// a time, an object without a kind, a kind that the scheme does not know. The package does not look at what a decoder
// says: an error that follows a response which has arrived in full is an error of a decoder. Package transport knows
// which responses have arrived.
package decode
