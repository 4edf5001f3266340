// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// seenLabels records the labels of each call.
type seenLabels []string

func (s *seenLabels) Increment(_ context.Context, code, method, host string) {
	*s = append(*s, code+" "+method+" "+host)
}

// The hub's hosts keep their labels; all remotes share one label, and unknown codes become one code.
//
//nolint:paralleltest // It replaces the metrics of the process, in which no client runs.
func TestLimit(t *testing.T) {
	ctx := t.Context()
	var got seenLabels
	metrics.RequestResult = &got
	keep := clientmetrics.Limit()
	keep(&rest.Config{Host: "https://hub.example:6443/path"})
	keep(&rest.Config{Host: "10.0.0.1:8080"})
	for _, host := range []string{"hub.example:6443", "edge.example:6443", "10.0.0.1:8080", "10.0.0.1:6443", ""} {
		metrics.RequestResult.Increment(ctx, "200", "GET", host)
	}
	for _, code := range []string{"<error>", "404", "999", "7"} {
		metrics.RequestResult.Increment(ctx, code, "GET", "edge.example:6443")
	}
	want := seenLabels{"200 GET hub.example:6443", "200 GET remote", "200 GET 10.0.0.1:8080", "200 GET remote", "200 GET remote"}
	want = append(want, "<error> GET remote", "404 GET remote", "unknown GET remote", "unknown GET remote")
	testkit.Equal(t, got, want, "recorded labels")
}
