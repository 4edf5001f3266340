// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// installation has a namespace of its own, and an audit of the gates of all its replicas.
type installation struct {
	t         *testing.T
	cluster   *fleet.Cluster
	kube      kubernetes.Interface
	namespace string
	uids      []types.UID // of a Cluster in each shard; empty for that of what runs once

	mu       sync.Mutex
	terms    []map[int64]*term // of each shard, by epoch
	problems []string
}

// term is when the gate of a shard was open in an epoch. Both moments are inside of the true interval.
type term struct {
	process *process
	first   time.Time // after the first call that found it open
	last    time.Time // before the last call that found it open
}

// newInstallation returns an installation on the shared API server.
func newInstallation(t *testing.T, count int) *installation {
	t.Helper()
	cluster := fleettest.Cluster(t, "hub")
	kube, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "replica-"},
	}, metav1.CreateOptions{})
	must(t, err)
	w := &installation{t: t, cluster: cluster, kube: kube, namespace: ns.Name, uids: uidsOf(count), terms: make([]map[int64]*term, count+1)}
	for i := range w.terms {
		w.terms[i] = map[int64]*term{}
	}
	t.Cleanup(w.expectSafety)
	return w
}

func uidsOf(count int) []types.UID {
	uids := make([]types.UID, count+1)
	for i, found := 0, 0; found < count; i++ {
		uid := types.UID(fmt.Sprintf("cluster-%d", i))
		if shard := shards.Of(uid, count); uids[shard] == "" {
			uids[shard], found = uid, found+1
		}
	}
	return uids
}

// startPair returns an installation with two replicas that share the shards.
func startPair(t *testing.T) (w *installation, a, b *process) {
	t.Helper()
	w = newInstallation(t, fewShards)
	a, b = w.start("a"), w.start("b")
	w.expectShared(a, b)
	return w, a, b
}

// noteOpen records that the gate of a shard was open at a moment between before and after.
func (w *installation) noteOpen(p *process, shard int, epoch int64, before, after time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine, known := w.terms[shard][epoch]
	if !known {
		mine = &term{process: p, first: after, last: before}
		w.terms[shard][epoch] = mine
	}
	mine.last = before
	if mine.process != p {
		w.problem("shard %d: %s and %s have epoch %d", shard, p.name, mine.process.name, epoch)
	}
	for e, other := range w.terms[shard] {
		if e > epoch && mine.last.After(other.first) || e < epoch && other.last.After(mine.first) {
			w.problem("shard %d: the gates of epoch %d of %s and of epoch %d of %s are open at a time",
				shard, epoch, p.name, e, other.process.name)
		}
	}
}

// problem records a violation. The caller holds w.mu.
func (w *installation) problem(format string, args ...any) {
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

func (w *installation) report(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem(format, args...)
}

// expectSafety fails the test if gates of different holders overlapped, or a call of a Runner came at a wrong time.
func (w *installation) expectSafety() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		w.t.Error(p)
	}
}

// longestGap returns the longest time between the gates of two holders of a shard, after a moment.
func (w *installation) longestGap(since time.Time) (longest time.Duration, moves int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, terms := range w.terms {
		for epoch, next := range terms {
			if before, known := terms[epoch-1]; known && next.first.After(since) {
				longest, moves = max(longest, next.first.Sub(before.last)), moves+1
			}
		}
	}
	return longest, moves
}

// process is a replica that runs, and its Runner.
type process struct {
	*Replica
	w      *installation
	name   string
	proxy  *fault.Proxy
	cancel context.CancelFunc
	done   chan error
	stop   chan struct{}
	stuck  atomic.Bool // the replica makes no progress
	slow   atomic.Bool // Warm does not return before its context ends

	open []atomic.Int64 // the epoch in which the gate of each shard was open at the last look

	mu         sync.Mutex
	apps       []string // the state of each shard
	coldStarts int
	after      map[int]string        // of the last start of each shard
	keepsStart atomic.Bool           // Start does not return before its context ends
	holds      map[int]chan struct{} // shards with a write that is in flight until the channel is closed
	failures   int                   // calls that shall fail
}

// startUnhurried starts a replica that is not late even if the machine is busy.
func (w *installation) startUnhurried(name string, change ...func(*Options)) *process {
	w.t.Helper()
	return w.start(name, append([]func(*Options){func(o *Options) {
		o.Timing = shards.Timing{Duration: time.Minute, Deadline: time.Minute / 2, Retry: quick().Retry}
	}}, change...)...)
}

func (w *installation) start(name string, change ...func(*Options)) *process {
	w.t.Helper()
	p := w.build(name, change...)
	p.run()
	return p
}

// run runs a replica until the end of the test.
func (p *process) run() {
	w := p.w
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	p.cancel = cancel
	var looking sync.WaitGroup
	looking.Go(p.look)
	go func() {
		err := p.Run(ctx)
		close(p.stop)
		looking.Wait()
		for shard := range w.uids {
			if _, err := p.gate(shard); err == nil {
				w.report("%s: a gate is open after the end of Run", p.name)
			}
		}
		p.done <- err
	}()
	w.t.Cleanup(func() {
		if err := p.end(); err != nil {
			w.t.Logf("%s ends with %v", p.name, err)
		}
	})
}

func (w *installation) build(name string, change ...func(*Options)) *process {
	w.t.Helper()
	proxy := fleettest.Proxy(w.t, w.cluster.Server())
	p := &process{
		w: w, name: name, proxy: proxy, done: make(chan error, 1), stop: make(chan struct{}), cancel: func() {},
		open: make([]atomic.Int64, len(w.uids)), apps: make([]string, len(w.uids)), holds: map[int]chan struct{}{}, after: map[int]string{},
	}
	o := Options{
		Config: w.through(proxy), Namespace: w.namespace, Pod: name, Count: len(w.uids) - 1, Timing: quick(), Runner: p,
		Alive: func() error {
			if p.stuck.Load() {
				return fmt.Errorf("the reconcilers of %s stand still", name)
			}
			return nil
		},
		LeaveTimeout: patience,
	}
	if testing.Verbose() {
		o.Log = testkit.Log(w.t)
	}
	for _, c := range change {
		c(&o)
	}
	made, err := New(o)
	must(w.t, err)
	p.Replica = made
	return p
}

func (w *installation) through(proxy *fault.Proxy) *rest.Config {
	w.t.Helper()
	kubeconfig, err := proxy.Kubeconfig(w.cluster.Kubeconfig())
	must(w.t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(w.t, err)
	return config
}

func (p *process) look() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for shard := range p.w.uids {
			before := time.Now()
			epoch, err := p.gate(shard)
			if err == nil {
				p.w.noteOpen(p, shard, epoch, before, time.Now())
			}
			p.open[shard].Store(epoch)
		}
		select {
		case <-tick.C:
		case <-p.stop:
			return
		}
	}
}

// end ends the replica in good order, and returns the error of Run.
func (p *process) end() error {
	p.cancel()
	err := <-p.done
	p.done <- err
	return err
}

// set sets the fault of the connection to the API server.
func (p *process) set(f fault.Fault) {
	p.w.t.Helper()
	must(p.w.t, p.proxy.Set(f))
}

// held returns how many gates of shards with Clusters are open.
func (p *process) held() (n int) {
	for i := range p.open {
		if i != shards.Once && p.open[i].Load() != 0 {
			n++
		}
	}
	return n
}

// become notes that a call of the Runner brings the apps of a shard from one state to another.
func (p *process) become(shard int, to string, from ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range from {
		if p.apps[shard] == f {
			p.apps[shard] = to
			return
		}
	}
	p.w.report("%s: shard %d becomes %s while it is %q", p.name, shard, to, p.apps[shard])
	p.apps[shard] = to
}

func (p *process) fails() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures--
	return p.failures >= 0
}

// Warm builds apps, which takes a moment.
func (p *process) Warm(ctx context.Context, shard int) error {
	p.become(shard, "warming", "")
	Pause(ctx, 50*time.Millisecond)
	if p.slow.Load() {
		<-ctx.Done()
	}
	if p.fails() {
		p.become(shard, "failed", "warming")
		return fmt.Errorf("no app for shard %d", shard)
	}
	if ctx.Err() != nil {
		p.become(shard, "failed", "warming")
		return context.Cause(ctx)
	}
	p.become(shard, "warm", "warming")
	return nil
}

func (p *process) Start(ctx context.Context, shard int, _ int64, after string) {
	if p.keepsStart.Load() {
		<-ctx.Done()
	}
	p.mu.Lock()
	p.after[shard] = after
	if p.apps[shard] == "" {
		p.coldStarts++
	}
	p.mu.Unlock()
	p.become(shard, "started", "", "warm", "failed")
}

// Drain waits for the write in flight, if there is one.
func (p *process) Drain(ctx context.Context, shard int) error {
	p.become(shard, "draining", "", "warm", "failed", "started", "undrained")
	p.mu.Lock()
	write := p.holds[shard]
	p.mu.Unlock()
	if write != nil {
		select {
		case <-write:
		case <-ctx.Done():
		}
	}
	if p.fails() || ctx.Err() != nil {
		p.become(shard, "undrained", "draining")
		return fmt.Errorf("a write of shard %d is in flight", shard)
	}
	p.become(shard, "", "draining")
	return nil
}

// expectShared waits until each shard has one open gate and the loads of the replicas are within the limit.
func (w *installation) expectShared(among ...*process) {
	w.t.Helper()
	clusters := len(w.uids) - 1
	most := (clusters + len(among) - 1) / len(among)
	most = max(most, int(1.15*float64(clusters)/float64(len(among))))
	eventually(w.t, fmt.Sprintf("%d replicas share the shards", len(among)), func() bool {
		for shard := range w.uids {
			open := 0
			for _, p := range among {
				if p.open[shard].Load() != 0 {
					open++
				}
			}
			if open != 1 {
				return false
			}
		}
		for _, p := range among {
			if n := p.held(); n > most || n == 0 {
				return false
			}
		}
		return true
	})
}
