// SPDX-License-Identifier: Apache-2.0

package clientmetrics

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
)

// Limit makes client-go count the requests to all hosts together, as "remote", except for the hosts of configurations
// that keep is called with: the hub's API server. controller-runtime records no other metric of
// client-go unless the program asks for it.
//
// main must call it once, before it makes a client: the metric is a variable without a lock, which controller-runtime
// sets when it is imported. keep may be called at any time.
func Limit() (keep func(hub *rest.Config)) {
	limited := &limitedResult{inner: metrics.RequestResult}
	metrics.RequestResult = limited
	return limited.keep
}

const anyRemote = "remote"

type limitedResult struct {
	inner metrics.ResultMetric
	kept  sync.Map // of hosts
}

func (m *limitedResult) keep(hub *rest.Config) {
	if server, _, err := rest.DefaultServerUrlFor(hub); err == nil {
		m.kept.Store(server.Host, true)
	}
}

func (m *limitedResult) Increment(ctx context.Context, code, method, host string) {
	if _, kept := m.kept.Load(host); !kept {
		host = anyRemote
	}
	m.inner.Increment(ctx, knownCode(code), method, host)
}

// knownCode is "unknown" for what HTTP does not define. client-go has a text for requests without a response.
func knownCode(code string) string {
	if n, err := strconv.Atoi(code); err == nil && http.StatusText(n) == "" {
		return "unknown"
	}
	return code
}
