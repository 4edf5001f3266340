// SPDX-License-Identifier: Apache-2.0

package clientmetrics

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
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

// The hub's hosts keep their labels; all remotes share one label, and unknown codes become one code. The test replaces
// no metrics of the process, because other tests have running clients.
func TestLimitedClientMetricsKeepNoHosts(t *testing.T) {
	t.Parallel()
	hub := &hosts{}
	hub.keep(&rest.Config{Host: "https://hub.example:6443/path"})
	hub.keep(&rest.Config{Host: "10.0.0.1:8080"})
	ctx := t.Context()
	var got seenLabels
	result := &limitedResult{hub, &got}
	retry := &limitedRetry{hub, &got}
	latency := &limitedLatency{hub, seenURLs{&got}}
	resolver := &limitedResolver{hub, seenNames{&got}}
	size := &limitedSize{hub, seenSizes{&got}}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recorded labels (-want +got):\n%s", diff)
	}
}
