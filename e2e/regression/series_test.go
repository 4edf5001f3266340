// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/registry"
)

// Rule S30: whoever registers a remote decides its address. A hub that keeps a metric for each address of its requests
// grows with every remote that is added, removed or moved. All metrics of controller-runtime about client-go's requests
// are enabled here.
func TestLeaks_AddressesOfRemotesStayInMetrics(t *testing.T) {
	t.Parallel()
	own := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) { o.Metrics = own })
	var traces []string // of removed remotes
	for i := range 5 {
		p, data := proxyTo(t, one)
		name := registry.ClusterName(unique("moving"))
		spawn(t, r, name, configFor(t, data))
		expectWorks(t, one, name)
		if !hasTrace(seriesOf(t, own), string(name)) {
			t.Errorf("%s has no series while it is registered", name)
		}
		if i%2 == 0 {
			set(t, p, fault.Blackhole())
		}
		must(t, r.Stop(t.Context(), name))
		traces = append(traces, p.Addr(), string(name))
	}
	counted := seriesOf(t, ctrlmetrics.Registry)
	for _, metric := range requestMetrics {
		if !slices.ContainsFunc(counted, func(s string) bool {
			return strings.HasPrefix(s, metric+" ") && strings.Contains(s, `host="remote"`)
		}) {
			t.Errorf("%s does not count the requests to remotes", metric)
		}
	}
	for _, from := range []prometheus.Gatherer{own, ctrlmetrics.Registry, prometheus.DefaultGatherer} {
		for _, one := range seriesOf(t, from) {
			for _, gone := range traces {
				if hasTrace([]string{one}, gone) {
					t.Errorf("a series of %s remains after its removal: %s", gone, one)
				}
			}
		}
	}
}

// requestMetrics are the metrics of client-go's requests that every remote has.
var requestMetrics = []string{
	"rest_client_requests_total", "rest_client_request_duration_seconds", "rest_client_response_size_bytes",
	"rest_client_request_size_bytes",
}

// hasTrace reports whether a label of one of these series is that text, or contains it as an address.
func hasTrace(series []string, text string) bool {
	return slices.ContainsFunc(series, func(s string) bool {
		return strings.Contains(s, `"`+text+`"`) || strings.Contains(s, text+"/") || strings.Contains(s, "/"+text)
	})
}
