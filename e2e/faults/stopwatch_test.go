// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
)

// stopwatch measures in each remote the time from a write of an object until a reconciler sees it. It also records when
// two epochs of a remote reconcile one object at the same time, or alternate.
type stopwatch struct {
	mu      sync.Mutex // protects the fields
	laps    map[registry.ClusterName]*lap
	active  map[string]map[int64]int       // running reconciles, by object and epoch
	newest  map[registry.ClusterName]int64 // epoch that has reconciled an object
	overlap []string
	seen    map[string]int // reconciles by remote and object
}

// lap has the measurements of one remote.
type lap struct {
	last    int64
	pending []beat // written and not seen yet, in the order of their numbers
	done    []sample
}

// beat is a write.
type beat struct {
	number int64
	sent   time.Time
}

// sample is a duration and the time at which it began.
type sample struct {
	at   time.Time
	took time.Duration
}

func newStopwatch() *stopwatch {
	return &stopwatch{
		laps:   map[registry.ClusterName]*lap{},
		active: map[string]map[int64]int{}, seen: map[string]int{}, newest: map[registry.ClusterName]int64{},
	}
}

// stopwatchName is the name of the module, and of the object that is written.
const stopwatchName = "stopwatch"

func (w *stopwatch) module() registry.Module {
	return registry.NewModule(stopwatchName, registry.ModuleOptions{Remote: fx.Invoke(w.setUp)})
}

func (w *stopwatch) setUp(p registry.Remote) error {
	return registry.ControllerManagedBy(p.Manager).Named(stopwatchName).For(&corev1.ConfigMap{}).
		Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			defer w.enter(p.Name, p.Status.Epoch, r.NamespacedName)()
			if r.Name != stopwatchName {
				return ctrl.Result{}, nil
			}
			var one corev1.ConfigMap
			if err := p.Client.Get(ctx, r.NamespacedName, &one); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			number, err := strconv.ParseInt(one.Data["beat"], 10, 64)
			if err != nil {
				return ctrl.Result{}, reconcile.TerminalError(err)
			}
			w.saw(p.Name, number, time.Now())
			return ctrl.Result{}, nil
		}))
}

func (w *stopwatch) enter(cluster registry.ClusterName, epoch int64, object types.NamespacedName) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := string(cluster) + ":" + object.String()
	if w.active[key] == nil {
		w.active[key] = map[int64]int{}
	}
	at := w.active[key]
	at[epoch]++
	w.seen[string(cluster)+":"+object.Name]++
	for other, n := range at {
		if other != epoch && n > 0 {
			w.overlap = append(w.overlap, fmt.Sprintf("%s by epochs %d and %d", key, other, epoch))
		}
	}
	if newest := w.newest[cluster]; epoch < newest {
		w.overlap = append(w.overlap, fmt.Sprintf("%s by epoch %d after %d had begun", key, epoch, newest))
	}
	w.newest[cluster] = max(w.newest[cluster], epoch)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if at[epoch]--; at[epoch] == 0 {
			delete(at, epoch)
		}
	}
}

// overlaps returns the reconciles that two epochs ran at the same time, or alternately.
func (w *stopwatch) overlaps() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.overlap...)
}

func (w *stopwatch) reconciles(cluster, object string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[cluster+":"+object]
}

func (w *stopwatch) lapLocked(cluster registry.ClusterName) *lap {
	l := w.laps[cluster]
	if l == nil {
		l = &lap{}
		w.laps[cluster] = l
	}
	return l
}

// next returns the number of the next write, and records that it is sent now.
func (w *stopwatch) next(cluster registry.ClusterName) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lapLocked(cluster)
	l.last++
	l.pending = append(l.pending, beat{l.last, time.Now()})
	return l.last
}

// drop removes a write that failed.
func (w *stopwatch) drop(cluster registry.ClusterName, number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lapLocked(cluster)
	for i, b := range l.pending {
		if b.number == number {
			l.pending = append(l.pending[:i], l.pending[i+1:]...)
			return
		}
	}
}

// saw records that the write with a number, and therefore every write before it, was seen.
func (w *stopwatch) saw(cluster registry.ClusterName, number int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lapLocked(cluster)
	for len(l.pending) > 0 && l.pending[0].number <= number {
		l.done = append(l.done, sample{l.pending[0].sent, now.Sub(l.pending[0].sent)})
		l.pending = l.pending[1:]
	}
}

// between returns the latencies of the writes between two times, and the number of writes that were not seen.
func (w *stopwatch) between(cluster registry.ClusterName, from, to time.Time) (seen []time.Duration, unseen int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lapLocked(cluster)
	for _, b := range l.pending {
		if !b.sent.Before(from) && b.sent.Before(to) {
			unseen++
		}
	}
	return during(l.done, from, to), unseen
}

func during(samples []sample, from, to time.Time) []time.Duration {
	var took []time.Duration
	for _, s := range samples {
		if !s.at.Before(from) && s.at.Before(to) {
			took = append(took, s.took)
		}
	}
	return took
}

// write writes the object once, with a number that the reconciler reports.
func (w *stopwatch) write(ctx context.Context, admin client.Client, cluster registry.ClusterName, namespace string) error {
	number := w.next(cluster)
	one := &corev1.ConfigMap{}
	one.Name, one.Namespace = stopwatchName, namespace
	patch := fmt.Appendf(nil, `{"data":{"beat":"%d"}}`, number)
	err := admin.Patch(ctx, one, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) == nil && err != nil {
		one.Data = map[string]string{"beat": strconv.FormatInt(number, 10)}
		err = admin.Create(ctx, one)
	}
	if err != nil {
		w.drop(cluster, number)
	}
	return err
}
