// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

type counting struct {
	name                       string
	renewals, watches, therest atomic.Int64
}

func (c *counting) wrap(o *Options) {
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, c} })
}

type countingTransport struct {
	next  http.RoundTripper
	count *counting
}

func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Query().Get("watch") != "":
		t.count.watches.Add(1)
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/leases/"+t.count.name+"-"):
		t.count.renewals.Add(1)
	default:
		t.count.therest.Add(1)
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper returns the transport below, for client-go.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (w *installation) startCounted(names ...string) ([]*process, []*counting) {
	var processes []*process
	var counts []*counting
	for _, name := range names {
		c := &counting{name: name}
		counts = append(counts, c)
		processes = append(processes, w.startUnhurried(name, c.wrap))
	}
	return processes, counts
}

func sum(counts []*counting) (renewals, watches, therest int64) {
	for _, c := range counts {
		renewals, watches, therest = renewals+c.renewals.Load(), watches+c.watches.Load(), therest+c.therest.Load()
	}
	return renewals, watches, therest
}

// While nothing changes, a replica sends its renewals and nothing else: neither records nor the assignment cost requests.
func TestReplica_AtRest(t *testing.T) {
	fleettest.Slow(t, "nothing: only many renewals show that no other requests are sent")
	t.Parallel()
	w := newInstallation(t, shards.DefaultCount)
	replicas, counts := w.startCounted("a", "b", "c")
	w.expectShared(replicas...)
	const enough = 15 // renewals of three replicas
	renewals, watches, therest := sum(counts)
	began := time.Now()
	eventually(t, fmt.Sprintf("%d renewals without another request", enough), func() bool {
		r, s, o := sum(counts)
		if s != watches || o != therest { // A replica was late, or a watch has ended.
			began, renewals, watches, therest = time.Now(), r, s, o
		}
		return r-renewals >= enough
	})
	r, _, _ := sum(counts)
	t.Logf("%.1f requests in a second with a renewal every %s", float64(r-renewals)/time.Since(began).Seconds(), quick().Retry)
}
