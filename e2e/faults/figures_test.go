// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"cmp"
	"fmt"
	"os"
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
}

// report adds a row to the table, and fails the test if the goal is not met.
func report(t *testing.T, f figure) {
	t.Helper()
	f.measured += fmt.Sprintf(" (load %s)", load())
	t.Logf("%s: goal %s, measured %s", f.what, f.goal, f.measured)
	if !f.met {
		t.Errorf("%s: %s is worse than %s", f.what, f.measured, f.goal)
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
	table.WriteString("| what | goal | measured |\n|---|---|---|\n")
	for _, f := range figures.rows {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", f.what, f.goal, f.measured)
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
	}
	return d.Round(time.Microsecond)
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
