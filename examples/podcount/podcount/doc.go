// SPDX-License-Identifier: Apache-2.0

// Package podcount is an example of a module that works in both directions. Its remote part counts the Pods of each
// namespace and writes a ConfigMap in the hub (counter.go). Its hub part copies a greeting from the hub into every remote
// (greeter.go). Both depend on the current state only, so a remote that was away needs no special code, and a failing one
// is retried separately.
package podcount
