// SPDX-License-Identifier: Apache-2.0

// Package testkit has what the tests of most packages share.
package testkit

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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

// Log writes to the log of a test until its cleanups have run, and drops what comes later: a manager of controller-runtime logs in
// a goroutine that its Start does not wait for.
func Log(tb testing.TB) logr.Logger {
	tb.Helper()
	var mu sync.Mutex
	ended := false
	tb.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			tb.Log(prefix, args)
		}
	}, funcr.Options{})
}

// Closed waits until a channel is closed, which ends the test after ten minutes with what it waits for.
func Closed(tb testing.TB, what string, done <-chan struct{}) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatalf("not after %s: %s", patience, what)
	}
}

// Background calls f until the test ends, or the function that it returns is called, and fails the test if f returns an error.
func Background(tb testing.TB, f func(context.Context) error) (end func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := f(ctx); err != nil {
			tb.Errorf("it ends with %v", err)
		}
	})
	end = func() {
		cancel()
		running.Wait()
	}
	tb.Cleanup(end)
	return end
}

// RoundTrip makes a function an http.RoundTripper.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Read returns the text of a file.
func Read(tb testing.TB, path ...string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	Must(tb, err)
	return string(text)
}

// File writes a file into a folder that is removed with the test, and returns its path.
func File[T string | []byte](tb testing.TB, name string, text T) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	Must(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Request returns a request without a body, for as long as the test runs.
func Request(tb testing.TB, method, url string) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, url, http.NoBody)
	Must(tb, err)
	return r
}

// Until waits until check returns true, and ends the test with what it waits for after ten minutes.
func Until(tb testing.TB, what string, check func() bool) {
	tb.Helper()
	Eventually(tb, func() error {
		if !check() {
			return fmt.Errorf("not after %s: %s", patience, what)
		}
		return nil
	})
}
