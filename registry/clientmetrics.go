// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
	// It registers controller-runtime's metrics with client-go when it is imported, hence before
	// LimitClientMetrics can be called.
	_ "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// LimitClientMetrics makes client-go count the requests to all hosts but those of these hubs together, as
// those to the host "remote". client-go counts by host, and keeps a series of each host that it has ever
// asked: a hub would keep those of every remote that has come, gone or moved, and a remote could add some
// for every status code that it can think of. What tells remotes apart is the registry's to measure, with
// the label "cluster".
//
// The metrics are variables of client-go that its clients read without a lock. So this is for main to do,
// before it makes a client, and not for New.
func LimitClientMetrics(hubs ...*rest.Config) {
	known := hostsOf(hubs...)
	clientmetrics.RequestResult = &limitedResult{known, clientmetrics.RequestResult}
	clientmetrics.RequestRetry = &limitedRetry{known, clientmetrics.RequestRetry}
	clientmetrics.RequestLatency = &limitedLatency{known, clientmetrics.RequestLatency}
	clientmetrics.RateLimiterLatency = &limitedLatency{known, clientmetrics.RateLimiterLatency}
	clientmetrics.ResolverLatency = &limitedResolver{known, clientmetrics.ResolverLatency}
	clientmetrics.RequestSize = &limitedSize{known, clientmetrics.RequestSize}
	clientmetrics.ResponseSize = &limitedSize{known, clientmetrics.ResponseSize}
}

// anyRemote is the host that requests to remotes are counted for.
const anyRemote = "remote"

// hosts are those that have series of their own. They do not change.
type hosts map[string]bool

func hostsOf(configs ...*rest.Config) hosts {
	h := hosts{}
	for _, c := range configs {
		if server, _, err := rest.DefaultServerUrlFor(c); err == nil {
			h[server.Host] = true
		}
	}
	return h
}

func (h hosts) label(host string) string {
	if h[host] {
		return host
	}
	return anyRemote
}

// labelOfName is label where client-go knows a host without its port.
func (h hosts) labelOfName(name string) string {
	for host := range h {
		if (&url.URL{Host: host}).Hostname() == name {
			return name
		}
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
	hosts
	inner clientmetrics.ResultMetric
}

// Increment counts a request.
func (m *limitedResult) Increment(ctx context.Context, code, method, host string) {
	m.inner.Increment(ctx, knownCode(code), method, m.label(host))
}

type limitedRetry struct {
	hosts
	inner clientmetrics.RetryMetric
}

// IncrementRetry counts a request that was sent again.
func (m *limitedRetry) IncrementRetry(ctx context.Context, code, method, host string) {
	m.inner.IncrementRetry(ctx, knownCode(code), method, m.label(host))
}

type limitedLatency struct {
	hosts
	inner clientmetrics.LatencyMetric
}

// Observe takes in how long a request took, or waited for its turn.
func (m *limitedLatency) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	u.Host = m.label(u.Host)
	m.inner.Observe(ctx, verb, u, latency)
}

type limitedResolver struct {
	hosts
	inner clientmetrics.ResolverLatencyMetric
}

// Observe takes in how long it took to find the address of a host.
func (m *limitedResolver) Observe(ctx context.Context, host string, latency time.Duration) {
	m.inner.Observe(ctx, m.labelOfName(host), latency)
}

type limitedSize struct {
	hosts
	inner clientmetrics.SizeMetric
}

// Observe takes in how large a request or an answer was.
func (m *limitedSize) Observe(ctx context.Context, verb, host string, size float64) {
	m.inner.Observe(ctx, verb, m.label(host), size)
}
