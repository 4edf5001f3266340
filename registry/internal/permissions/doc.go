// SPDX-License-Identifier: Apache-2.0

/*
Package permissions finds the permissions that a module uses and does not declare. To grant such a permission in one
remote would fix that remote only: every other remote grants the permissions that the module declares.

A [Rulebook] inspects the responses of API servers. If a server refuses a request with 403, the Rulebook compares the
request, as the server reads it, with the declared rules of the module that has sent it. A rule that is missing in the
declaration explains the refusal: the Rulebook remembers it, logs it once, and passes the explanation to the informer that
has sent the request. A permission that the module declares is not an undeclared one: it is missing in the remote, and
the state of the remote says so.

The module of a request is known from its context: an informer names its users, and the contain package marks the
goroutines of a module. Otherwise the permission is undeclared only if every module that may have sent the request lacks
it.

The package knows neither apps nor the hub's list of modules: a function returns the [Declaration] of a module, and an
app gets a function that inspects its responses.

The files: rulebook.go inspects responses and has the set of undeclared permissions, access.go reads requests and compares
them with rules.
*/
package permissions
