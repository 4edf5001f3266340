// SPDX-License-Identifier: Apache-2.0

package test_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// cases holds config/prometheus/rules_test.yaml, with the part of promtool's format that the file uses.
type cases struct {
	RuleFiles          []string `json:"rule_files"`
	EvaluationInterval string   `json:"evaluation_interval"`
	Tests              []struct {
		Interval    string `json:"interval"`
		InputSeries []struct {
			Series string `json:"series"`
			Values string `json:"values"`
		} `json:"input_series"`
		AlertRuleTest []expectation `json:"alert_rule_test"`
	} `json:"tests"`
}

type expectation struct {
	Name     string `json:"alertname"`
	EvalTime string `json:"eval_time"`
	Alerts   []struct {
		Labels map[string]string `json:"exp_labels"`
	} `json:"exp_alerts"`
}

func readStrict[T any](t *testing.T, file string) (read T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return read
}

// alerts returns the alerting rules by their names.
func alerts(t *testing.T) map[string]monitoringv1.Rule {
	t.Helper()
	found := map[string]monitoringv1.Rule{}
	for _, group := range readStrict[monitoringv1.PrometheusRule](t, "../prometheus/rules.yaml").Spec.Groups {
		for _, rule := range group.Rules {
			found[rule.Alert] = rule
		}
	}
	return found
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := model.ParseDuration(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return time.Duration(d)
}

// The ServiceMonitor decodes strictly into the type of the Prometheus operator and selects the hub's Service.
func TestPrometheus_ServiceMonitor(t *testing.T) {
	t.Parallel()
	monitor := readStrict[monitoringv1.ServiceMonitor](t, "../prometheus/service_monitor.yaml")
	for _, object := range kustomize(t, "hub") {
		if object.GetKind() == "Service" && gocmp.Equal(object.GetLabels(), monitor.Spec.Selector.MatchLabels) {
			return
		}
	}
	t.Error("the ServiceMonitor selects no Service")
}

// Alerts fire exactly in the cases in which rules_test.yaml expects them, and each alert fires in at least one case.
func TestAlerts_Fire(t *testing.T) {
	t.Parallel()
	rules, proven := alerts(t), map[string]bool{}
	all := readStrict[cases](t, "../prometheus/rules_test.yaml")
	for _, one := range all.Tests {
		var series strings.Builder
		fmt.Fprintf(&series, "load %s\n", one.Interval)
		for _, s := range one.InputSeries {
			fmt.Fprintf(&series, "  %s %s\n", s.Series, s.Values)
		}
		for _, want := range one.AlertRuleTest {
			rule, known := rules[want.Name]
			if !known {
				t.Fatalf("alert %s does not exist", want.Name)
			}
			t.Run(want.Name+"/"+want.EvalTime, func(t *testing.T) {
				got := evaluation{rule: rule, every: duration(t, all.EvaluationInterval)}.at(t, series.String(), duration(t, want.EvalTime))
				var expected []string
				for _, alert := range want.Alerts {
					expected = append(expected, labels.FromMap(alert.Labels).String())
				}
				slices.Sort(expected)
				if diff := gocmp.Diff(expected, got); diff != "" {
					t.Errorf("firing alerts (-want +got):\n%s", diff)
				}
			})
			proven[want.Name] = proven[want.Name] || len(want.Alerts) > 0
		}
	}
	for name := range rules {
		if !proven[name] {
			t.Errorf("alert %s fires in no case", name)
		}
	}
}

// evaluation evaluates an alert as Prometheus does.
type evaluation struct {
	rule  monitoringv1.Rule
	every time.Duration
}

// at returns the labels of the alerts that fire at a time after the start of the series.
func (e evaluation) at(t *testing.T, series string, end time.Duration) (firing []string) {
	t.Helper()
	loader, err := promqltest.NewLazyLoader(series, promqltest.LazyLoaderOpts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = loader.Close() })
	var hold time.Duration
	if e.rule.For != nil {
		hold = duration(t, string(*e.rule.For))
	}
	active := map[string]time.Duration{} // start of the activity, by labels
	for now := time.Duration(0); now <= end; now += e.every {
		loader.WithSamplesTill(time.Unix(0, 0).Add(now), func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		still := map[string]time.Duration{}
		for _, sample := range e.query(t, loader, now) {
			key := e.labels(sample.Metric)
			since, was := active[key]
			if !was {
				since = now
			}
			still[key] = since
		}
		active = still
	}
	for key, since := range active {
		if end-since >= hold {
			firing = append(firing, key)
		}
	}
	slices.Sort(firing)
	return firing
}

// labels returns the labels of an alert for a sample.
func (e evaluation) labels(metric labels.Labels) string {
	b := labels.NewBuilder(metric).Del(model.MetricNameLabel)
	for name, value := range e.rule.Labels {
		b.Set(name, value)
	}
	return b.Labels().String()
}

func (e evaluation) query(t *testing.T, loader *promqltest.LazyLoader, now time.Duration) promql.Vector {
	t.Helper()
	query, err := loader.QueryEngine().NewInstantQuery(t.Context(), loader.Queryable(), nil, e.rule.Expr.String(), time.Unix(0, 0).Add(now))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	found, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Each alert has a severity, a summary and a runbook that says what to do; each runbook has an alert.
func TestAlerts_Runbooks(t *testing.T) {
	t.Parallel()
	const folder = "https://github.com/clusterfx/clusterfx/blob/main/docs/runbooks/"
	rules := alerts(t)
	for name, rule := range rules {
		if rule.Annotations["runbook_url"] != folder+name+".md" || rule.Annotations["summary"] == "" {
			t.Errorf("%s: got annotations %v, want a summary and the URL of its runbook", name, rule.Annotations)
		}
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) {
			t.Errorf("%s: got labels %v, want the severity critical or warning", name, rule.Labels)
		}
		page, err := os.ReadFile("../../docs/runbooks/" + name + ".md")
		if err != nil {
			t.Error(err)
		}
		for _, heading := range []string{"# " + name + "\n", "\n## Symptom\n", "\n## Look\n", "\n## Do\n"} {
			if !strings.Contains(string(page), heading) {
				t.Errorf("runbook of %s lacks the heading %q", name, heading)
			}
		}
	}
	pages, err := os.ReadDir("../../docs/runbooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(page.Name(), ".md")
		if _, known := rules[name]; !known && name != "README" {
			t.Errorf("docs/runbooks/%s has no alert", page.Name())
		}
	}
}
