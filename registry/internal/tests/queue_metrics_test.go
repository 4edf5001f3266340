// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// values returns the values of the series of a queue; of a histogram, the number and the sum.
func values(t *testing.T, from prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if of, ok := labels["name"]; !ok || of != name || labels["controller"] != name {
				continue
			}
			key := strings.TrimPrefix(f.GetName(), "workqueue_")
			if p, ok := labels["priority"]; ok {
				key += " " + p
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				got[key] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				got[key] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				got[key+" number"] = float64(m.GetHistogram().GetSampleCount())
				got[key+" sum"] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return got
}

// lifeOfItems adds, works on and repeats items, and ends with one item in work for two seconds and one ready item.
func lifeOfItems(q priorityqueue.PriorityQueue[string]) {
	take := func() string {
		key, _ := q.Get()
		synctest.Wait()
		return key
	}
	q.AddWithOpts(withPriority(-100), "a", "b")
	synctest.Wait()
	<-time.After(3 * time.Second)
	first := take()
	q.Add("b")
	q.AddRateLimited(first)
	synctest.Wait()
	<-time.After(2 * time.Second)
	q.Done(first)
	second := take()
	q.Add(second)
	q.AddAfter("c", time.Second)
	synctest.Wait()
	<-time.After(2*time.Second + time.Millisecond)
	synctest.Wait()
}

// The metrics have the values that they have with the queue of controller-runtime, in the same vectors.
func TestMetrics_AsControllerRuntime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		name := rand.Text() // no other test has it, and no earlier run of this test
		theirs := priorityqueue.New(name+"-theirs", func(o *priorityqueue.Opts[string]) { o.RateLimiter = newLimiter() })
		lifeOfItems(theirs)
		want := values(t, metrics.Registry, name+"-theirs")
		theirs.ShutDown()
		ours := contain.NewQueue(name+"-ours", newLimiter(), contain.NewQueueMetrics(metrics.Registry))
		lifeOfItems(ours)
		got := values(t, metrics.Registry, name+"-ours")
		ours.ShutDown()
		if want["longest_running_processor_seconds"] != 2 || len(want) != 10 {
			t.Errorf("values of controller-runtime: got %v, want 10 and an item of 2 s", want)
		}
		testkit.Equal(t, got, want, "values (controller-runtime -, ours +)")
	})
}

// The ages of the items in work are those of all queues of a name. They are exported while there are some, and are 0 after that.
func TestMetrics_Ages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		m := contain.NewQueueMetrics(r)
		one, two := contain.NewQueue("q", newLimiter(), m), contain.NewQueue("q", newLimiter(), m)
		defer one.ShutDown()
		defer two.ShutDown()
		expect := func(when string, unfinished, longest float64) {
			t.Helper()
			<-time.After(500 * time.Millisecond)
			synctest.Wait()
			got := values(t, r, "q")
			if got["unfinished_work_seconds"] != unfinished || got["longest_running_processor_seconds"] != longest {
				t.Errorf("%s: got %v, want %v and %v", when, got, unfinished, longest)
			}
		}
		expect("at first", 0, 0)
		one.Add("a")
		two.Add("b")
		take(t, one, 1)
		expect("one item", 0.5, 0.5)
		take(t, two, 1)
		expect("two items", 1.5, 1)
		one.Done("a")
		expect("the other item", 1, 1)
		two.ShutDown()
		expect("after ShutDown", 0, 0)
		two.Done("b")
		if got := values(t, r, "q")["work_duration_seconds number"]; got != 2 {
			t.Errorf("work_duration_seconds: got %v items, want 2", got)
		}
		one.Add("a")
		take(t, one, 1)
		expect("again", 0.5, 0.5)
	})
}

// A queue that shuts down takes its items out of the depth.
func TestMetrics_DepthAfterShutDown(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	q := contain.NewQueue("q", newLimiter(), contain.NewQueueMetrics(r))
	q.Add("in work")
	take(t, q, 1)
	q.AddWithOpts(withPriority(1), "in work", "ready")
	q.AddAfter("delayed", time.Hour)
	testkit.Equal(t, values(t, r, "q")["depth 1"], 2, "depth")
	q.ShutDown()
	if got := values(t, r, "q"); got["depth 1"] != 0 || got["depth 0"] != 0 {
		t.Errorf("depth after ShutDown: got %v, want 0", got)
	}
}

// The label priority has a limited number of values.
func TestMetrics_Priorities(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	q := contain.NewQueue("q", newLimiter(), contain.NewQueueMetrics(r))
	defer q.ShutDown()
	for n := range 100 {
		q.AddWithOpts(withPriority(n), fmt.Sprint(n))
	}
	depths := 0
	got := values(t, r, "q")
	for key := range got {
		if strings.HasPrefix(key, "depth ") {
			depths++
		}
	}
	if rest := got["depth exceeded_cardinality_limit"]; depths != 26 || rest != 75 {
		t.Errorf("depths: got %d, with %v items of other priorities, want 26 with 75", depths, rest)
	}
	take(t, q, 100)
	for key, value := range values(t, r, "q") {
		if strings.HasPrefix(key, "depth ") && value != 0 {
			t.Errorf("%s of an empty queue: got %v, want 0", key, value)
		}
	}
}

// Without a name a queue has no metrics, and works if a registry refuses the metrics.
func TestMetrics_None(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Something else."})
	r.MustRegister(other)
	m := contain.NewQueueMetrics(r)
	for _, name := range []string{"", "q"} {
		q := contain.NewQueue(name, newLimiter(), m)
		q.Add("a")
		take(t, q, 1)
		q.Done("a")
		q.ShutDown()
	}
	got := values(t, r, "q")
	if _, ok := got["depth 0"]; ok || got["adds_total"] != 1 {
		t.Errorf("values: got %v, want no depth, and one item added", got)
	}
	if got := values(t, r, ""); len(got) != 0 {
		t.Errorf("values without a name: got %v, want none", got)
	}
}
