// SPDX-License-Identifier: Apache-2.0

// Package faults holds the fault suite.
package faults
