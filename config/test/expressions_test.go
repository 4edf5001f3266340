// SPDX-License-Identifier: Apache-2.0

package test_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// exported returns the names of the metrics that docs/metrics.md lists. A test of the hub compares that page with the
// hub's exported metrics. Prometheus itself adds "up".
func exported(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{"up": true}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		name, isRow := strings.CutPrefix(cells[0], "| `")
		if !isRow || len(cells) != 4 {
			continue
		}
		name = strings.TrimSuffix(name, "`")
		found[name] = true
		if cells[1] == "histogram" {
			found[name+"_bucket"], found[name+"_sum"], found[name+"_count"] = true, true, true
		}
	}
	return found
}

// check fails the test unless an expression can be parsed and names metrics of the hub only.
func check(t *testing.T, where, expression string) {
	t.Helper()
	parsed, err := parser.ParseExpr(strings.ReplaceAll(expression, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %s: %v", where, expression, err)
		return
	}
	known, selectors := exported(t), 0
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, is := node.(*parser.VectorSelector); is {
			selectors++
			if !known[s.Name] {
				t.Errorf("%s: %q in %s is not a metric of the hub", where, s.Name, expression)
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s: %s selects no metric", where, expression)
	}
}

func TestAlerts_Expressions(t *testing.T) {
	t.Parallel()
	for name, rule := range alerts(t) {
		check(t, name, rule.Expr.String())
	}
}

// panel has the fields of a dashboard panel that the test needs.
type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards found (%v)", err)
	}
	seen := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			UID    string  `json:"uid"`
			Title  string  `json:"title"`
			Panels []panel `json:"panels"`
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if dashboard.Title == "" || dashboard.UID == "" || len(dashboard.Panels) == 0 {
			t.Errorf("%s has no title, uid or panels", file)
		}
		if other, taken := seen[dashboard.UID]; taken {
			t.Errorf("%s and %s have the same uid", file, other)
		}
		seen[dashboard.UID] = file
		for _, p := range dashboard.Panels {
			if p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %q has no title or no queries", file, p.Title)
			}
			for _, target := range p.Targets {
				check(t, filepath.Base(file)+": "+p.Title, target.Expr)
			}
		}
	}
}
