// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

type report struct {
	out io.Writer

	mu    sync.Mutex // protects the fields below, and lines of out
	names []string   // of the lists, in the order of their first mutants
	lists map[string]*tally
}

type tally struct {
	caught, survived, untried int
	took                      time.Duration
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
	if r.lists[m.list] == nil {
		if r.lists == nil {
			r.lists = map[string]*tally{}
		}
		r.names, r.lists[m.list] = append(r.names, m.list), &tally{}
	}
	list := r.lists[m.list]
	list.took += took
	switch {
	case err != nil:
		list.untried++
		_, _ = fmt.Fprintf(r.out, "ERROR     %s\n          %v\n", m, err)
	case by == "":
		list.survived++
		_, _ = fmt.Fprintf(r.out, "SURVIVED  %s (%s -run '%s', %s)\n", m, m.Package, m.Run, took)
	default:
		list.caught++
		_, _ = fmt.Fprintf(r.out, "caught    %s (%s)\n          %s\n", m, took, by)
	}
}

func (r *report) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum tally
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "LIST\tMUTANTS\tCAUGHT\tSURVIVED\tNOT TRIED\tTIME")
	row := func(name string, t *tally) {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n",
			name, t.caught+t.survived+t.untried, t.caught, t.survived, t.untried, t.took)
	}
	for _, name := range r.names {
		t := r.lists[name]
		row(name, t)
		sum.caught, sum.survived, sum.untried = sum.caught+t.caught, sum.survived+t.survived, sum.untried+t.untried
		sum.took += t.took
	}
	row("all", &sum)
	_ = table.Flush()
	if sum.survived+sum.untried > 0 {
		return errors.New("not all mutants are caught: write the tests that catch them, or correct the list")
	}
	return nil
}
