// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// LimitClientMetrics makes client-go count the requests to all hosts together, as those to the host
// "remote", but for those that keep is called with: the hub's. client-go counts by host, and keeps a series
// of each host that it has ever asked: a hub would keep those of every remote that has come, gone or moved,
// and a remote could add some for every status code that it can think of. What tells remotes apart is the
// registry's to measure, with the label "cluster".
//
// The metrics are variables of client-go that its clients read without a lock. So this is for main to do,
// once and before it makes a client, and not for New. controller-runtime has set them when it was imported.
// keep may be called at any time.
func LimitClientMetrics() (keep func(hub *rest.Config)) {
	known := &hosts{}
	clientmetrics.RequestResult = &limitedResult{known, clientmetrics.RequestResult}
	clientmetrics.RequestRetry = &limitedRetry{known, clientmetrics.RequestRetry}
	clientmetrics.RequestLatency = &limitedLatency{known, clientmetrics.RequestLatency}
	clientmetrics.RateLimiterLatency = &limitedLatency{known, clientmetrics.RateLimiterLatency}
	clientmetrics.ResolverLatency = &limitedResolver{known, clientmetrics.ResolverLatency}
	clientmetrics.RequestSize = &limitedSize{known, clientmetrics.RequestSize}
	clientmetrics.ResponseSize = &limitedSize{known, clientmetrics.ResponseSize}
	return known.keep
}

// anyRemote is the host that requests to remotes are counted for.
const anyRemote = "remote"

// hosts are those that have series of their own, with their ports and without.
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

// knownCode returns a status code if it is one that HTTP knows. client-go has texts for what is no answer.
func knownCode(code string) string {
	if n, err := strconv.Atoi(code); err == nil && http.StatusText(n) == "" {
		return "unknown"
	}
	return code
}

type limitedResult struct {
	*hosts
	inner clientmetrics.ResultMetric
}

// Increment counts a request.
func (m *limitedResult) Increment(ctx context.Context, code, method, host string) {
	m.inner.Increment(ctx, knownCode(code), method, m.label(host))
}

type limitedRetry struct {
	*hosts
	inner clientmetrics.RetryMetric
}

// IncrementRetry counts a request that was sent again.
func (m *limitedRetry) IncrementRetry(ctx context.Context, code, method, host string) {
	m.inner.IncrementRetry(ctx, knownCode(code), method, m.label(host))
}

type limitedLatency struct {
	*hosts
	inner clientmetrics.LatencyMetric
}

// Observe takes in how long a request took, or waited for its turn.
func (m *limitedLatency) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	u.Host = m.label(u.Host)
	m.inner.Observe(ctx, verb, u, latency)
}

type limitedResolver struct {
	*hosts
	inner clientmetrics.ResolverLatencyMetric
}

// Observe takes in how long it took to find the address of a host.
func (m *limitedResolver) Observe(ctx context.Context, host string, latency time.Duration) {
	m.inner.Observe(ctx, m.label(host), latency)
}

type limitedSize struct {
	*hosts
	inner clientmetrics.SizeMetric
}

// Observe takes in how large a request or an answer was.
func (m *limitedSize) Observe(ctx context.Context, verb, host string, size float64) {
	m.inner.Observe(ctx, verb, m.label(host), size)
}
