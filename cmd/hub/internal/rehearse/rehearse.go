// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/registry"
)

// Options say what to rehearse.
type Options struct {
	Hub process.Options
	// Selector and PerLabel choose Clusters: of those that match, PerLabel[label] of each value of the label, and Max in all.
	// Default: all of them.
	Selector labels.Selector
	PerLabel map[string]int
	Max      int
	// For bounds the rehearsal. Quiet is for how long an app at rest sends nothing new.
	For, Quiet time.Duration
	// Trust uses the Secrets and the accounts of the hub, without a policy that holds them.
	Trust bool
	// Against is a file with the metrics of the running hub, to which those of the rehearsal, which vary, are compared. Default: none.
	Against string
	// Progress is called with a line at times. Required.
	Progress func(format string, args ...any)
}

type rehearsal struct {
	Options
	hub     *access.Cluster
	metrics *prometheus.Registry
	running map[string]*dto.MetricFamily // of the running hub, or nil
	id      string                       // the value of the label of all its goroutines

	clusters []*app
	hubParts *app // has all findings that are of no other app, too
}

// Run rehearses, and returns the report, also when ctx ends before.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &rehearsal{Options: o, id: rand.Text(), metrics: prometheus.NewRegistry()}
	var err error
	if r.running, err = metricsIn(o.Against); err != nil {
		return nil, err
	}
	if r.hub, err = access.New("the hub's cluster", o.Hub.Config); err != nil {
		return nil, err
	}
	r.hubParts = newApp("", r.hub.HTTP.Transport, nil)
	r.Hub.Modules = slices.DeleteFunc(slices.Clone(o.Hub.Modules), r.isOutside)
	if err = r.held(ctx, r.hubParts); err != nil {
		return nil, err
	}
	if err = r.choose(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, a := range r.clusters {
			a.end()
		}
	}()
	r.Progress("rehearsing %s with %s", output.Count(len(r.clusters), "Cluster"), output.Count(len(r.Hub.Modules), "module"))
	report := &Report{Version: project.Version(), Digest: digest(), Configuration: r.configuration(), Clusters: []string{}, Changes: []Change{}}
	err = process.Rehearse(pprof.WithLabels(ctx, pprof.Labels(label, r.id)), r.hubOptions(), process.Rehearsal{
		Registry:   &registry.Rehearsal{Hub: r.recordsIn(true)},
		Middleware: registry.Middleware{Name: "rehearse", Order: math.MaxInt, Transport: r.recordsIn(false)},
		Run: func(ctx context.Context, remotes *registry.Registry) error {
			r.play(ctx, remotes)
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			r.finish(ending, remotes, report)
			return nil
		},
	})
	r.leaks(context.WithoutCancel(ctx))
	for _, a := range r.clusters {
		report.Clusters = append(report.Clusters, a.name)
	}
	for _, a := range r.apps() {
		a.mu.Lock()
		report.Findings = slices.AppendSeq(report.Findings, maps.Keys(a.findings))
		a.mu.Unlock()
	}
	report.bound()
	return report, err
}

// label is that of the goroutines of a rehearsal for pprof.
const label = "rehearsal"

// endTimeout is for reading what was wanted again.
const endTimeout = time.Minute

func (r *rehearsal) hubOptions() process.Options {
	o := r.Hub
	o.Registry.Replica, o.Registry.Metrics, o.Registry.AggregateMetrics = "rehearsal", r.metrics, false
	o.Config = rest.CopyConfig(o.Config)
	o.Config.UserAgent = "clusterfx/rehearsal"
	return o
}

// recordsIn returns what wraps the transports of all apps to the hub, or to their remotes.
func (r *rehearsal) recordsIn(hub bool) func(registry.ClusterName, http.RoundTripper) http.RoundTripper {
	return func(of registry.ClusterName, next http.RoundTripper) http.RoundTripper {
		for _, a := range r.apps() {
			if a.name == string(of) {
				return &recorder{a, hub, next}
			}
		}
		return registry.DryOnly(next) // There is no such app.
	}
}

func (r *rehearsal) apps() []*app { return append([]*app{r.hubParts}, r.clusters...) }

// isOutside finds modules that change what no API server can dry-run.
func (r *rehearsal) isOutside(m registry.Module) bool {
	if m.Outside() == "" {
		return false
	}
	r.hubParts.find(Finding{Module: m.Name(), Class: NotRehearsed, Detail: "it changes " + m.Outside()})
	return true
}

// digest is that of the program.
func digest() string {
	path, err := os.Executable()
	program, unread := os.ReadFile(path)
	if err != nil || unread != nil {
		return "unknown"
	}
	return fmt.Sprintf("sha256:%.8x", sha256.Sum256(program))
}

func (r *rehearsal) configuration() string {
	names := []string{}
	for _, m := range r.Hub.Modules {
		names = append(names, m.Name())
	}
	return fmt.Sprintf("%.8x", sha256.Sum256([]byte(text([]any{names, r.Hub.Registry.ModuleConfigs}))))
}
