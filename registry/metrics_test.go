// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func watcher() registry.Module {
	return registry.NewModule("watcher", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
		return registry.ControllerManagedBy(p.Manager).Named("watcher").For(&corev1.Namespace{}).
			Complete(nothing)
	})})
}

// seriesOf returns the number of series with this value of a label, by metric.
func seriesOf(t *testing.T, from prometheus.Gatherer, label, value string) map[string]int {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	found := map[string]int{}
	for _, family := range families {
		for _, one := range family.Metric {
			for _, l := range one.Label {
				if l.GetName() == label && l.GetValue() == value {
					found[family.GetName()]++
				}
			}
		}
	}
	return found
}

// Remotes, apps, probes, requests and reconciles are measured, each under its remote's name, and all series of a remote
// are removed with the remote. Every metric has the prefix clusterfx_ and a sentence as its help text.
func TestMetrics(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	all := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) { o.Metrics, o.Modules = all, []registry.Module{watcher()} })
	spawn(t, r, "measured", config)
	dead := config
	dead.Endpoint.Server = "https://127.0.0.1:1"
	must(t, r.Ensure("dead", dead))
	expectState(t, r, "dead", state.StateUnreachable, "Unreachable")
	of := func(labels ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			m[labels[i]] = labels[i+1]
		}
		return m
	}
	info, _ := r.Status("measured")
	for name, labels := range map[string]map[string]string{
		"clusterfx_cluster_info":          of("cluster", "measured", "id", info.ID, "version", info.Version),
		"clusterfx_cluster_state":         of("cluster", "dead", "state", "Unreachable"),
		"clusterfx_module_state":          of("cluster", "measured", "module", "watcher", "state", "Running"),
		"clusterfx_modules":               of("module", "watcher", "state", "Running"),
		"clusterfx_probe_failures_total":  of("cluster", "dead", "reason", "Unreachable"),
		"clusterfx_remote_requests_total": of("cluster", "measured", "code", "2xx"),
		"clusterfx_reconcile_total":       of("cluster", "measured", "module", "watcher", "result", "success"),
	} {
		eventually(t, func() error {
			if got := metric(t, all, name, labels); got < 1 {
				return fmt.Errorf("%s%v is %v, want 1 or more", name, labels, got)
			}
			return nil
		})
	}
	if got := metric(t, all, "clusterfx_clusters", of("state", "Ready")); got != 1 {
		t.Errorf("got %v Ready remotes, want 1", got)
	}
	families, err := all.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "clusterfx_") || !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("metric %s has help %q, want the prefix clusterfx_ and a full stop", f.GetName(), f.GetHelp())
		}
	}
	for _, name := range []registry.ClusterName{"measured", "dead"} {
		must(t, r.Stop(t.Context(), name))
		if left := seriesOf(t, all, "cluster", string(name)); len(left) > 0 {
			t.Errorf("got series of %s after its stop: %v", name, left)
		}
	}
}

// Aggregated metrics, which are for thousands of remotes, have no series of a single remote.
func TestMetrics_Aggregated(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	all := prometheus.NewRegistry()
	spawn(t, newRegistry(t, func(o *registry.Options) {
		o.Metrics, o.Modules, o.AggregateMetrics = all, []registry.Module{watcher()}, true
	}), "one", config)
	if found := seriesOf(t, all, "cluster", "one"); len(found) > 0 {
		t.Errorf("got series of one remote: %v", found)
	}
	if got := metric(t, all, "clusterfx_remote_requests_total", map[string]string{"cluster": "", "code": "2xx"}); got < 1 {
		t.Errorf("got %v requests of all remotes, want 1 or more", got)
	}
}
