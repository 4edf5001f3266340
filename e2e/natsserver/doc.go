// SPDX-License-Identifier: Apache-2.0

// Package natsserver pins the NATS server that tests run, in a Go module of its own: nothing else needs its dependencies. Package
// e2e/nats builds and runs the program.
package natsserver
