// SPDX-License-Identifier: Apache-2.0

/*
Package preflight has the questions to a remote before its modules are chosen, and their results: kinds that it
serves, and declared permissions that the credentials lack. These are values, so that the pure machine can hold them,
and package probe needs to know neither modules nor the machine.
*/
package preflight
