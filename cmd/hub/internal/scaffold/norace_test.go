// SPDX-License-Identifier: Apache-2.0

//go:build !race

package scaffold_test

// raceFlag is how this test was compiled.
const raceFlag = ""
