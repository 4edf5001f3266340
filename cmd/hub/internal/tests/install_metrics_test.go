// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

type documented struct {
	kind, help string
	labels     []string
}

// documentedMetrics returns the rows of docs/metrics.md by the names of the metrics.
func documentedMetrics(t *testing.T) map[string]documented {
	t.Helper()
	page := testkit.Read(t, "../../../../docs/metrics.md")
	found := map[string]documented{}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, " | ")
		if name, isRow := strings.CutPrefix(cells[0], "| `"); isRow && len(cells) == 4 {
			var labels []string
			if cells[2] != "" {
				labels = strings.Split(strings.ReplaceAll(cells[2], "`", ""), ", ")
			}
			found[strings.TrimSuffix(name, "`")] = documented{
				kind: cells[1], labels: labels, help: strings.TrimSuffix(strings.TrimSpace(cells[3]), " |"),
			}
		}
	}
	return found
}

// checkMetrics compares the metrics that a hub of this process exports with docs/metrics.md.
func checkMetrics(t *testing.T) {
	t.Helper()
	page := documentedMetrics(t)
	log := logging.NewBuffer(io.Discard) // The command run registers one, but does not start this hub.
	t.Cleanup(log.Close)
	must(t, ctrlmetrics.Registry.Register(log))
	t.Cleanup(func() { ctrlmetrics.Registry.Unregister(log) })
	families, err := ctrlmetrics.Registry.Gather()
	must(t, err)
	if *update {
		writeMetrics(t, families)
		page = documentedMetrics(t)
	}
	for _, f := range families {
		name := f.GetName()
		row, isThere := page[name]
		if !isThere && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("the hub exports %s, which docs/metrics.md does not have: %v", name, exportedAs(f))
		}
		if diff := cmp.Diff(row, exportedAs(f), cmp.AllowUnexported(documented{})); isThere && diff != "" {
			t.Errorf("docs/metrics.md has - for %s, the hub exports +:\n%s", name, diff)
		}
		delete(page, name)
	}
	for name, row := range page {
		checkDescribed(t, name, row)
	}
}

func exportedAs(f *dto.MetricFamily) documented {
	labels := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = true
		}
	}
	return documented{
		kind: strings.ToLower(f.GetType().String()), help: strings.TrimSpace(f.GetHelp()), labels: slices.Sorted(maps.Keys(labels)),
	}
}

// checkDescribed fails the test unless a metric without series is registered with this name, these labels and this
// help: a registry refuses a second metric with the name, and reports whether it differs.
func checkDescribed(t *testing.T, name string, row documented) {
	t.Helper()
	copied := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: row.help}, row.labels)
	err := ctrlmetrics.Registry.Register(copied)
	switch {
	case err == nil:
		ctrlmetrics.Registry.Unregister(copied)
		t.Errorf("docs/metrics.md has %s, which the hub does not export", name)
	case strings.Contains(err.Error(), "different label names or a different help string"):
		t.Errorf("docs/metrics.md has other labels or another help for %s: %v", name, err)
	}
}

// descriptor is the text of a description: its name, its help and its labels.
var descriptor = regexp.MustCompile(`^Desc{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: ".*", constLabels: {.*}, variableLabels: {(.*)}}$`)

// writeMetrics writes the metrics that a hub of this process exports or describes into docs/metrics.md.
func writeMetrics(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	rows, before := map[string]documented{}, documentedMetrics(t)
	described := make(chan *prometheus.Desc)
	go func() { defer close(described); ctrlmetrics.Registry.(prometheus.Collector).Describe(described) }()
	var all [][]string
	for d := range described {
		all = append(all, append(descriptor.FindStringSubmatch(d.String()), "", "", "", "")) // The registry waits for the last one.
	}
	for _, parts := range all {
		name, err := strconv.Unquote(parts[1])
		must(t, err)
		help, err := strconv.Unquote(parts[2])
		must(t, err)
		row := documented{kind: before[name].kind, help: strings.TrimSpace(help)}
		if parts[3] != "" {
			row.labels = slices.Sorted(strings.SplitSeq(parts[3], ","))
		}
		if row.kind == "" { // A metric without series does not say its type.
			switch row.kind = "gauge"; {
			case strings.HasSuffix(name, "_total"):
				row.kind = "counter"
			case strings.HasSuffix(name, "_duration_seconds") || strings.HasSuffix(name, "_latency_seconds"):
				row.kind = "histogram"
			}
		}
		rows[name] = row
	}
	for _, f := range families {
		rows[f.GetName()] = exportedAs(f)
	}
	const page = "../../../../docs/metrics.md"
	text, err := os.ReadFile(page)
	must(t, err)
	parts := strings.SplitAfter(string(text), "| metric | type | labels | help |\n|---|---|---|---|\n")
	for i, isOurs := range []bool{true, false} {
		_, rest, _ := strings.Cut(parts[i+1], "\n\n")
		parts[i+1] = tableOf(rows, isOurs) + "\n" + rest
	}
	must(t, os.WriteFile(page, []byte(strings.Join(parts, "")), 0o600))
}

// tableOf returns the rows of the metrics that clusterfx counts itself, or of those of its libraries.
func tableOf(rows map[string]documented, isOurs bool) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		if strings.HasPrefix(name, "clusterfx_") != isOurs || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		labels := ""
		if len(row.labels) > 0 {
			labels = "`" + strings.Join(row.labels, "`, `") + "`"
		}
		text += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, row.kind, labels, row.help)
	}
	return text
}
