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

// figures has the rows of the table that the full suite prints at its end.
var figures struct {
	mu   sync.Mutex // protects rows
	rows []figure
}

// figure is a measured value and its goal.
type figure struct {
	what, goal, measured string
	met                  bool
	// far reports whether the value misses the goal by more than a busy machine explains.
	far bool
}

// farOff is the factor by which a figure may miss its goal before the test fails. Figures are times, measured on any
// machine, with API servers, hub and load on the same processors, and the p99 of a few dozen values is their maximum. A
// defect that the figures are meant to find, such as a remote that waits for the timeout of another remote, misses the
// goal by a factor of ten or a hundred. The table contains the measured value, and whether it met the goal, in any
// case.
const farOff = 3

// report adds a row to the table, and fails the test if the value misses the goal by far.
func report(t *testing.T, f figure) {
	t.Helper()
	t.Logf("%s: goal %s, met %t, measured %s (load %s)", f.what, f.goal, f.met, f.measured, load())
	if f.far {
		t.Errorf("%s: got %s, far worse than the goal %s", f.what, f.measured, f.goal)
	}
	figures.mu.Lock()
	defer figures.mu.Unlock()
	figures.rows = append(figures.rows, f)
}

// load returns the load average of the last minute, with which a reader judges a figure.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

// figuresFile is the environment variable with the file to which the table is written, in addition to the output.
const figuresFile = "CLUSTERFX_FIGURES"

// printFigures prints the table, and writes it to the file of figuresFile.
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

func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	i := (len(sorted)*p + 99) / 100
	return short(sorted[max(i, 1)-1])
}

// short rounds a duration for readers.
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

// spread describes the distribution of durations.
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
