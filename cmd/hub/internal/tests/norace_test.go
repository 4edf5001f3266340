// SPDX-License-Identifier: Apache-2.0

//go:build !race

package tests

// raceFlag is the race flag of this test.
const raceFlag = ""
