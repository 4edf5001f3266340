// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// figures are the rows of the table that the full suite ends with.
var figures struct {
	mu   sync.Mutex // protects rows
	rows []figure
}

// figure is a measured value and what it is supposed to be.
type figure struct {
	what, goal, measured string
	met                  bool
	// far says that the value is so far from the goal that no busy machine explains it.
	far bool
}

// farOff is by how much a figure may miss its goal before the test fails. These are times, measured on
// whatever machine there is, with API servers, hub and load on the same processors, and a p99 of a few
// dozen values is the worst of them. A defect that the figures are there to find, such as a remote that
// waits for the timeout of another one, is a matter of ten or a hundred times the goal. What was measured,
// and whether it met the goal, is in the table in any case.
const farOff = 3

// report adds a row to the table, and fails the test if the goal is far off.
func report(t *testing.T, f figure) {
	t.Helper()
	t.Logf("%s: goal %s, met %t, measured %s (load %s)", f.what, f.goal, f.met, f.measured, load())
	if f.far {
		t.Errorf("%s: %s is far worse than %s", f.what, f.measured, f.goal)
	}
	figures.mu.Lock()
	defer figures.mu.Unlock()
	figures.rows = append(figures.rows, f)
}

// load returns the load average of the last minute, by which a reader judges a figure.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

// figuresFile names the variable that says where the table goes beside the output.
const figuresFile = "CLUSTERFX_FIGURES"

// printFigures prints the table.
func printFigures() error {
	figures.mu.Lock()
	defer figures.mu.Unlock()
	if len(figures.rows) == 0 {
		return nil
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d processors, GOMAXPROCS %d, load at the end %s\n\n", runtime.NumCPU(), runtime.GOMAXPROCS(0), load())
	table.WriteString("| what | goal | met | measured |\n|---|---|---|---|\n")
	for _, f := range figures.rows {
		met := "yes"
		if !f.met {
			met = "**no**"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", f.what, f.goal, met, f.measured)
	}
	_, _ = fmt.Fprint(os.Stdout, table.String())
	if name := os.Getenv(figuresFile); name != "" {
		return os.WriteFile(name, []byte(table.String()), 0o600)
	}
	return nil
}

// percentile returns the duration that p of a hundred do not exceed, to three digits or so.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	i := (len(sorted)*p + 99) / 100
	return short(sorted[max(i, 1)-1])
}

// short rounds a duration for people.
func short(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d > 10*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d
}

// spread says how durations are distributed.
func spread(all []time.Duration) string {
	return fmt.Sprintf("median %s, p99 %s, n=%d", percentile(all, 50), percentile(all, 99), len(all))
}

// worst returns the longest of the durations.
func worst[T cmp.Ordered](all []T) T {
	var zero T
	if len(all) == 0 {
		return zero
	}
	return slices.Max(all)
}
