// SPDX-License-Identifier: Apache-2.0

/*
Package decode keeps the text of remotes out of the errors of an app's clients, since decoders quote what they cannot
decode. It does not look at what a decoder says: an error after a response that has arrived in full, as package
transport knows, is a decoder's.
*/
package decode
