// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
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
	// Progress is called with a line at times. Default: no call.
	Progress func(format string, args ...any)
}

type rehearsal struct {
	Options
	hub     client.Client
	live    http.RoundTripper // to the hub
	metrics *prometheus.Registry
	running map[string]*dto.MetricFamily // of the running hub, or nil

	id           string           // the value of the label of all its goroutines
	failedBefore map[part]float64 // errors of modules until their second round

	clusters []*subject
	hubParts *subject // has no name

	mu       sync.Mutex // protects findings
	findings []Finding
}

// Run rehearses, and returns the report, also when ctx ends before.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &rehearsal{
		Options: o, id: rand.Text(), metrics: prometheus.NewRegistry(), failedBefore: map[part]float64{}, findings: []Finding{},
	}
	if r.Progress == nil {
		r.Progress = func(string, ...any) {}
	}
	var err error
	if r.running, err = metricsIn(o.Against); err != nil {
		return nil, err
	}
	if err = r.connect(); err != nil {
		return nil, err
	}
	r.Hub.Modules = slices.DeleteFunc(slices.Clone(o.Hub.Modules), r.isOutside)
	if !r.Trust {
		if err = r.holdHub(ctx); err != nil {
			return nil, err
		}
	}
	if err = r.choose(ctx); err != nil {
		return nil, err
	}
	defer r.disconnect()
	r.Progress("rehearsing %s with %s", output.Count(len(r.clusters), "Cluster"), output.Count(len(r.Hub.Modules), "module"))
	ctx = pprof.WithLabels(ctx, pprof.Labels(label, r.id))
	report := &Report{Version: project.Version(), Digest: digest(), Configuration: r.configuration(), Clusters: []string{}, Changes: []Change{}}
	err = process.Rehearse(ctx, r.hubOptions(), process.Rehearsal{
		Registry:   &registry.Rehearsal{Hub: r.transport(true)},
		Middleware: registry.Middleware{Name: "rehearse", Order: math.MaxInt, Client: halved, Transport: r.transport(false)},
		Run: func(ctx context.Context, remotes *registry.Registry) error {
			r.play(ctx, remotes)
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			r.finish(ending, remotes, report)
			return nil
		},
	})
	r.leaks(context.WithoutCancel(ctx))
	for _, rec := range r.recorders() {
		rec.mu.Lock()
		r.findings = slices.AppendSeq(r.findings, maps.Keys(rec.findings))
		rec.mu.Unlock()
	}
	for _, s := range r.clusters {
		report.Clusters = append(report.Clusters, s.name)
	}
	report.Findings = r.findings
	report.sort()
	return report, err
}

// label is that of the goroutines of a rehearsal for pprof.
const label = "rehearsal"

// endTimeout is for reading what was wanted again.
const endTimeout = time.Minute

func (r *rehearsal) connect() error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), hubv1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	var err error
	if r.live, err = rest.TransportFor(r.Hub.Config); err != nil {
		return fmt.Errorf("build the transport to the hub: %w", err)
	}
	r.hubParts = &subject{recorders: []*recorder{newRecorder("", true, r.live)}}
	r.hub, err = client.New(r.Hub.Config, client.Options{Scheme: scheme})
	return err
}

func (r *rehearsal) disconnect() {
	for _, s := range r.clusters {
		s.transport.Close()
	}
}

func (r *rehearsal) hubOptions() process.Options {
	o := r.Hub
	o.Registry.Replica, o.Registry.Metrics, o.Registry.AggregateMetrics = "rehearsal", r.metrics, false
	o.Config = rest.CopyConfig(o.Config)
	o.Config.UserAgent = "clusterfx/rehearsal"
	return o
}

// halved leaves the running hub at least as much as the rehearsal takes.
func halved(limits state.ClientLimits) state.ClientLimits {
	limits.QPS, limits.Burst = limits.QPS/2, max(limits.Burst/2, 1)
	return limits
}

func (r *rehearsal) transport(inHub bool) func(registry.ClusterName, http.RoundTripper) http.RoundTripper {
	return func(of registry.ClusterName, next http.RoundTripper) http.RoundTripper {
		for _, rec := range r.recorders() {
			if rec.cluster == string(of) && rec.inHub == inHub {
				return rec.over(next)
			}
		}
		return registry.DryOnly(next) // There is no such app.
	}
}

func (r *rehearsal) recorders() []*recorder {
	all := slices.Clone(r.hubParts.recorders)
	for _, s := range r.clusters {
		all = append(all, s.recorders...)
	}
	return all
}

func (r *rehearsal) find(f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, f)
}

// isOutside finds modules that change what no API server can dry-run.
func (r *rehearsal) isOutside(m registry.Module) bool {
	if m.Outside() == "" {
		return false
	}
	r.find(Finding{Module: m.Name(), Class: NotRehearsed, Detail: "it changes " + m.Outside()})
	return true
}
