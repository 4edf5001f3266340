// SPDX-License-Identifier: Apache-2.0

package clientmetrics

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
)

// Limit makes client-go count the requests to all hosts together, as "remote", except for the hosts of configurations
// that keep is called with: the hub's API server.
//
// main must call it once, before it makes a client: the metrics are variables without a lock, which
// controller-runtime sets when it is imported. keep may be called at any time.
func Limit() (keep func(hub *rest.Config)) {
	known := &hosts{}
	metrics.RequestResult = &limitedResult{known, metrics.RequestResult}
	metrics.RequestRetry = &limitedRetry{known, metrics.RequestRetry}
	metrics.RequestLatency = &limitedLatency{known, metrics.RequestLatency}
	metrics.RateLimiterLatency = &limitedLatency{known, metrics.RateLimiterLatency}
	metrics.ResolverLatency = &limitedResolver{known, metrics.ResolverLatency}
	metrics.RequestSize = &limitedSize{known, metrics.RequestSize}
	metrics.ResponseSize = &limitedSize{known, metrics.ResponseSize}
	return known.keep
}

const anyRemote = "remote"

type hosts struct{ kept sync.Map }

func (h *hosts) keep(hub *rest.Config) {
	if server, _, err := rest.DefaultServerUrlFor(hub); err == nil {
		h.kept.Store(server.Host, true)
		h.kept.Store(server.Hostname(), true)
	}
}

func (h *hosts) label(host string) string {
	if _, kept := h.kept.Load(host); kept {
		return host
	}
	return anyRemote
}

// knownCode is "unknown" for what HTTP does not define. client-go has a text for requests without a response.
func knownCode(code string) string {
	if n, err := strconv.Atoi(code); err == nil && http.StatusText(n) == "" {
		return "unknown"
	}
	return code
}

type limitedResult struct {
	*hosts
	inner metrics.ResultMetric
}

func (m *limitedResult) Increment(ctx context.Context, code, method, host string) {
	m.inner.Increment(ctx, knownCode(code), method, m.label(host))
}

type limitedRetry struct {
	*hosts
	inner metrics.RetryMetric
}

func (m *limitedRetry) IncrementRetry(ctx context.Context, code, method, host string) {
	m.inner.IncrementRetry(ctx, knownCode(code), method, m.label(host))
}

type limitedLatency struct {
	*hosts
	inner metrics.LatencyMetric
}

func (m *limitedLatency) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	u.Host = m.label(u.Host)
	m.inner.Observe(ctx, verb, u, latency)
}

type limitedResolver struct {
	*hosts
	inner metrics.ResolverLatencyMetric
}

func (m *limitedResolver) Observe(ctx context.Context, host string, latency time.Duration) {
	m.inner.Observe(ctx, m.label(host), latency)
}

type limitedSize struct {
	*hosts
	inner metrics.SizeMetric
}

func (m *limitedSize) Observe(ctx context.Context, verb, host string, size float64) {
	m.inner.Observe(ctx, verb, m.label(host), size)
}
