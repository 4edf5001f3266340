// SPDX-License-Identifier: Apache-2.0

//go:build race

package scaffold_test

// raceFlag is the race flag of this test.
const raceFlag = " -race"
