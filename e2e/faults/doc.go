// SPDX-License-Identifier: Apache-2.0

// Package faults holds the fault suite.
//
// The tests of this package do nothing unless the environment variable CLUSTERFX_FAULTS is set: to "some" for a
// fast part, or to "all". They are not part of make test yet, because a few of them still fail, or need a
// machine that does nothing else.
package faults
