// SPDX-License-Identifier: Apache-2.0

// Package podcount is an example of a module that works in both directions.
//
// Its remote part runs in every remote: it counts the Pods of each namespace and writes the result to a ConfigMap in
// the hub (counter.go). Its hub part runs once: it copies a greeting from a ConfigMap in the hub into every remote
// (greeter.go). fx.go declares the module; the rest is ordinary controller-runtime code.
//
// # Considerations
//
// Both directions are level-based: they depend on the current state, not on past events. So a remote that was away for
// a day, a restarted hub and a changed greeting need no special code.
//
// The greeting goes to one remote per request. A failing remote is retried separately and delays no other remote.
package podcount
