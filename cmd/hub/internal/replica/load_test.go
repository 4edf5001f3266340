// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
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

// Shard 0 and those with Clusters are taken first: all of them are in the first requests that are on their way at a time.
func TestReplica_TakesShardsWithClustersFirst(t *testing.T) {
	t.Parallel()
	w := newInstallation(t, shards.DefaultCount)
	sizes := make([]int, shards.DefaultCount+1)
	sizes[17], sizes[31], sizes[32] = 1, 2, 200
	first := &firstTakes{names: map[string]bool{}, all: make(chan struct{})}
	p := w.startUnhurried("a", func(o *Options) {
		o.Sizes = func() []int { return sizes }
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &firstTransport{next, first} })
	})
	eventually(t, "the replica holds all shards", func() bool { return p.held() == shards.DefaultCount })
	first.mu.Lock()
	defer first.mu.Unlock()
	for _, shard := range []int{shards.Once, 17, 31, 32} {
		if !first.names[recordName(shard)] {
			t.Errorf("shard %d is not among the first: %v", shard, first.names)
		}
	}
}

// firstTakes delays the writes to records until as many are on their way as may be.
type firstTakes struct {
	mu    sync.Mutex
	names map[string]bool
	all   chan struct{}
}

func (f *firstTakes) await(ctx context.Context, name string) {
	f.mu.Lock()
	if len(f.names) < atOnce {
		if f.names[name] = true; len(f.names) == atOnce {
			close(f.all)
		}
	}
	f.mu.Unlock()
	select {
	case <-f.all:
	case <-ctx.Done():
	}
}

type firstTransport struct {
	next  http.RoundTripper
	first *firstTakes
}

func (t *firstTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if name := path.Base(r.URL.Path); r.Method == http.MethodPatch && strings.HasPrefix(name, recordPrefix+"-") {
		t.first.await(r.Context(), name)
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper returns the transport below, for client-go.
func (t *firstTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
