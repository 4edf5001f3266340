// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

type report struct {
	out io.Writer

	mu                        sync.Mutex // protects the fields below, and lines of out
	caught, survived, untried int
}

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, format, args...)
}

// add gets the test that has caught the mutant or "", and why it could not be tried.
func (r *report) add(m *mutant, by string, err error, took time.Duration) {
	took = took.Round(time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.untried++
		_, _ = fmt.Fprintf(r.out, "ERROR     %s\n          %v\n", m, err)
	case by == "":
		r.survived++
		_, _ = fmt.Fprintf(r.out, "SURVIVED  %s (%s -run '%s', %s)\n", m, m.Package, m.Run, took)
	default:
		r.caught++
		_, _ = fmt.Fprintf(r.out, "caught    %s (%s)\n          %s\n", m, took, by)
	}
}

func (r *report) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, "%d mutants: %d caught, %d survived, %d not tried\n",
		r.caught+r.survived+r.untried, r.caught, r.survived, r.untried)
	if r.survived+r.untried > 0 {
		return errors.New("not all mutants are caught: write the tests that catch them, or correct the list")
	}
	return nil
}
