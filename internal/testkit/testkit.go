// SPDX-License-Identifier: Apache-2.0

// Package testkit has what the tests of most packages share.
package testkit

import (
	"testing"
	"time"
)

// patience is for facts that come about within seconds on an idle machine.
const patience = 10 * time.Minute

// A test is a testing.TB or a rapid.T.
type test interface {
	Helper()
	Fatal(args ...any)
}

// Must ends the test if there is an error.
func Must(tb test, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Eventually returns, as soon as check returns nil, how long that took. It asks every 20 ms, and ends the test with the last error
// after ten minutes. Cleanups may call it: the end of the test's context does not end it.
func Eventually(tb testing.TB, check func() error) time.Duration {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			tb.Fatal(err)
		}
		<-tick.C
	}
}
