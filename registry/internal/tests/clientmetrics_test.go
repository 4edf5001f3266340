// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// seenLabels implements every metric of client-go and records the labels of each call.
type seenLabels []string

func (s *seenLabels) Increment(_ context.Context, code, method, host string) {
	*s = append(*s, code+" "+method+" "+host)
}

func (s *seenLabels) IncrementRetry(ctx context.Context, code, method, host string) {
	s.Increment(ctx, code, method, host)
}

type seenURLs struct{ *seenLabels }

func (s seenURLs) Observe(_ context.Context, verb string, u url.URL, _ time.Duration) {
	*s.seenLabels = append(*s.seenLabels, verb+" "+u.String())
}

type seenNames struct{ *seenLabels }

func (s seenNames) Observe(_ context.Context, host string, _ time.Duration) {
	*s.seenLabels = append(*s.seenLabels, host)
}

type seenSizes struct{ *seenLabels }

func (s seenSizes) Observe(_ context.Context, verb, host string, _ float64) {
	*s.seenLabels = append(*s.seenLabels, verb+" "+host)
}

// The hub's hosts keep their labels; all remotes share one label, and unknown codes become one code.
//
//nolint:paralleltest // It replaces the metrics of the process, in which no client runs.
func TestLimit(t *testing.T) {
	ctx := t.Context()
	var got seenLabels
	metrics.RequestResult, metrics.RequestRetry, metrics.RequestLatency = &got, &got, seenURLs{&got}
	metrics.ResolverLatency, metrics.RequestSize = seenNames{&got}, seenSizes{&got}
	keep := clientmetrics.Limit()
	keep(&rest.Config{Host: "https://hub.example:6443/path"})
	keep(&rest.Config{Host: "10.0.0.1:8080"})
	result, retry, latency := metrics.RequestResult, metrics.RequestRetry, metrics.RequestLatency
	resolver, size := metrics.ResolverLatency, metrics.RequestSize
	for _, host := range []string{"hub.example:6443", "edge.example:6443", "10.0.0.1:8080", "10.0.0.1:6443", ""} {
		result.Increment(ctx, "200", "GET", host)
		retry.IncrementRetry(ctx, "429", "GET", host)
		latency.Observe(ctx, "GET", url.URL{Scheme: "https", Host: host, Path: "/api"}, time.Second)
		size.Observe(ctx, "GET", host, 1)
		resolver.Observe(ctx, (&url.URL{Host: host}).Hostname(), time.Second)
	}
	for _, code := range []string{"<error>", "404", "999", "7"} {
		result.Increment(ctx, code, "GET", "edge.example:6443")
	}
	var want seenLabels
	for _, host := range [][2]string{{"hub.example:6443", "hub.example"}, {"remote", "remote"}, {"10.0.0.1:8080", "10.0.0.1"}, {"remote", "10.0.0.1"}, {"remote", "remote"}} {
		want = append(want, "200 GET "+host[0], "429 GET "+host[0], "GET https://"+host[0]+"/api", "GET "+host[0], host[1])
	}
	want = append(want, "<error> GET remote", "404 GET remote", "unknown GET remote", "unknown GET remote")
	testkit.Equal(t, got, want, "recorded labels")
}
