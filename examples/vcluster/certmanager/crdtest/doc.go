// SPDX-License-Identifier: Apache-2.0

// Package crdtest tests the example certmanager with the CustomResourceDefinitions of cert-manager. It is a Go module of its
// own, so that clusterfx does not require cert-manager. The test plays the part of cert-manager.
package crdtest
