// SPDX-License-Identifier: Apache-2.0

/*
Package permissions finds the permissions that a module uses and does not declare. Granting one in a remote would fix
that remote only; every other grants what modules declare.

A [Rulebook] inspects responses. It compares a request that got a 403 with the rules of the module that sent it. A
rule that the [Declaration] lacks is remembered, logged once, and explained to the informer. A declared permission is
missing in the remote, and the remote's state says so. The module is known from the request's context; without one,
every possible sender has to lack the permission.
*/
package permissions
