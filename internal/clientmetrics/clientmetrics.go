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

// Limit makes client-go count the requests to all hosts together, as requests to the host "remote", except for the
// hosts of the configurations that keep is called with: the hub's API server.
//
// main calls Limit once, before it makes a client: client-go's clients read the metrics, which are variables, without a
// lock. controller-runtime has set them when it was imported. keep may be called at any time.
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

// anyRemote is the host that requests to remotes are counted for.
const anyRemote = "remote"

// hosts are the hosts that have series of their own, with their ports and without.
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

// knownCode returns a status code, or "unknown" for a number that HTTP does not define. client-go counts requests without
// a response with a text in its place.
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

// Increment counts a request.
func (m *limitedResult) Increment(ctx context.Context, code, method, host string) {
	m.inner.Increment(ctx, knownCode(code), method, m.label(host))
}

type limitedRetry struct {
	*hosts
	inner metrics.RetryMetric
}

// IncrementRetry counts a request that was sent again.
func (m *limitedRetry) IncrementRetry(ctx context.Context, code, method, host string) {
	m.inner.IncrementRetry(ctx, knownCode(code), method, m.label(host))
}

type limitedLatency struct {
	*hosts
	inner metrics.LatencyMetric
}

// Observe records how long a request took, or waited for the rate limiter.
func (m *limitedLatency) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	u.Host = m.label(u.Host)
	m.inner.Observe(ctx, verb, u, latency)
}

type limitedResolver struct {
	*hosts
	inner metrics.ResolverLatencyMetric
}

// Observe records how long the resolution of a host's name took.
func (m *limitedResolver) Observe(ctx context.Context, host string, latency time.Duration) {
	m.inner.Observe(ctx, m.label(host), latency)
}

type limitedSize struct {
	*hosts
	inner metrics.SizeMetric
}

// Observe records the size of a request or a response.
func (m *limitedSize) Observe(ctx context.Context, verb, host string, size float64) {
	m.inner.Observe(ctx, verb, m.label(host), size)
}
