// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are the values of each metric of each benchmark, in the order in which they were printed first.
type results struct {
	columns, rows []string
	values        map[[2]string][]float64 // by row and column
}

func newResults() *results { return &results{values: map[[2]string][]float64{}} }

// cpus is the number of processors at the end of the name of a benchmark.
var cpus = regexp.MustCompile(`-\d+$`)

// add adds the results in the output of go test: lines of a name, a count, and pairs of a value and a unit.
func (r *results) add(output string) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		column := path.Base(cpus.ReplaceAllString(fields[0], ""))
		for pair := range slices.Chunk(fields[2:], 2) {
			if value, err := strconv.ParseFloat(pair[0], 64); err == nil && len(pair) == 2 {
				r.note(pair[1], column, value)
			}
		}
	}
}

// note adds a value. The time of a run is left out: these benchmarks report what they measure as other metrics.
func (r *results) note(row, column string, value float64) {
	if row == "ns/op" {
		return
	}
	if !slices.Contains(r.rows, row) {
		r.rows = append(r.rows, row)
	}
	if !slices.Contains(r.columns, column) {
		r.columns = append(r.columns, column)
	}
	key := [2]string{row, column}
	r.values[key] = append(r.values[key], value)
}

// table returns the table in Markdown.
func (r *results) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| median (range) | %s |\n|---%s|\n", strings.Join(r.columns, " | "), strings.Repeat("|---", len(r.columns)))
	for _, row := range r.rows {
		cells := []string{row}
		for _, column := range r.columns {
			cells = append(cells, cell(r.values[[2]string{row, column}]))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// cell returns the median of values and their range.
func cell(values []float64) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return short(values[0])
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := (sorted[(len(sorted)-1)/2] + sorted[middle]) / 2
	return fmt.Sprintf("%s (%s to %s)", short(median), short(sorted[0]), short(sorted[len(sorted)-1]))
}

// short formats a value with three digits.
func short(value float64) string {
	return strconv.FormatFloat(value, 'g', 3, 64)
}
