// SPDX-License-Identifier: Apache-2.0

// Package crdtest tests certmanager with cert-manager's definitions, and plays its part. It is a Go module of its own, so
// that clusterfx does not require cert-manager.
package crdtest
