// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
)

// counting counts the requests of a replica.
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

// RoundTrip counts and sends the request.
func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Query().Get("watch") != "":
		t.count.watches.Add(1)
	case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/leases/"+t.count.name):
		t.count.renewals.Add(1)
	default:
		t.count.therest.Add(1)
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper returns the transport below, for client-go.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// startCounted starts replicas whose requests are counted.
func (w *world) startCounted(change func(*Options), names ...string) ([]*process, []*counting) {
	var processes []*process
	var counts []*counting
	for _, name := range names {
		c := &counting{name: name}
		counts = append(counts, c)
		processes = append(processes, w.start(name, c.wrap, change))
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
	t.Parallel()
	w := newWorld(t, shards.DefaultCount)
	replicas, counts := w.startCounted(func(*Options) {}, "a", "b", "c")
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

// BenchmarkReplica measures three replicas with 128 shards and the default timing: the load at rest, the loss of a replica,
// and an orderly end.
func BenchmarkReplica(b *testing.B) {
	for b.Loop() {
		w := newWorld(b, shards.DefaultCount)
		replicas, counts := w.startCounted(func(o *Options) { o.Timing = shards.Timing{} }, "a", "b", "c")
		began := time.Now()
		w.expectShared(replicas...)
		b.ReportMetric(time.Since(began).Seconds(), "s/start")

		before, _, others := sum(counts)
		began = time.Now()
		<-time.After(30 * time.Second)
		renewals, _, therest := sum(counts)
		b.ReportMetric(float64(renewals-before)/time.Since(began).Seconds(), "renewals/s")
		b.ReportMetric(float64(therest-others)/time.Since(began).Seconds(), "others/s")

		_, _, others = sum(counts)
		began = time.Now()
		replicas[0].set(fault.Refuse())
		w.expectShared(replicas[1:]...)
		b.ReportMetric(time.Since(began).Seconds(), "s/loss")
		gap, _ := w.longestGap(began)
		b.ReportMetric(gap.Seconds(), "s/loss-gap")
		_, _, therest = sum(counts[1:])
		b.ReportMetric(float64(therest-others+counts[0].therest.Load()), "requests/loss")

		began = time.Now()
		must(b, replicas[1].end())
		w.expectShared(replicas[2])
		b.ReportMetric(time.Since(began).Seconds(), "s/leave")
		gap, _ = w.longestGap(began)
		b.ReportMetric(gap.Seconds(), "s/leave-gap")
		replicas[0].set(fault.Pass())
	}
}

// BenchmarkReplica_Gate measures the gate, which each write asks.
func BenchmarkReplica_Gate(b *testing.B) {
	uids := uidsOf(shards.DefaultCount)
	r, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Namespace: "hub", Name: "a", Runner: &process{}})
	must(b, err)
	l, now := newLife(r), present()
	l.machine.SeeOwn(shards.Lease{Version: "1"}, now)
	now.Wall, now.Monotonic = now.Wall.Add(time.Hour), now.Monotonic.Add(time.Hour) // The gate stays open.
	l.machine.Renewed(shards.Lease{Incarnation: l.me.Incarnation, Version: "2"}, now)
	for shard := range uids {
		l.machine.SeeRecord(shard, shards.Record{Holder: l.me, Epoch: 1, Version: "3"})
	}
	r.life.Store(l)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := r.Gate(uids[i%len(uids)]); err != nil {
				b.Error(err)
			}
		}
	})
}
