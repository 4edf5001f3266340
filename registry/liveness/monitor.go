// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultInterval = 10 * time.Second
	defaultMisses   = 3
	// ReconcileTimeout bounds the hub's own reconciles, so that workers that wait for a slow API server are free before
	// three heartbeats are missed.
	ReconcileTimeout = 2 * defaultInterval
)

const checksPerInterval = 20

// Options configure a Monitor. The zero value is a good one.
type Options struct {
	// Interval is between heartbeats, and what each has. Default: 10 s.
	Interval time.Duration
	// Misses in a row make a subject stuck. Default: 3.
	Misses int
	// Log gets a line when a subject is stuck or has recovered. Default: discards.
	Log logr.Logger
}

// Subject is a watched part of the hub. One with a Module is only reported; any other is vital.
type Subject struct {
	// Module owns the hub part. Default: none, the subject is the hub's own.
	Module string
	// Cluster is the remote that the subject works for.
	Controller, Cluster string
}

func (s Subject) vital() bool { return s.Module == "" }

func (s Subject) String() string {
	var parts []string
	for _, part := range []struct{ kind, name string }{
		{"module", s.Module}, {"controller", s.Controller}, {"cluster", s.Cluster},
	} {
		if part.name != "" {
			parts = append(parts, part.kind+" "+part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// Monitor sends heartbeats and notes missed ones. It is safe for many goroutines, and a nil Monitor watches nothing.
type Monitor struct {
	interval time.Duration
	misses   int
	log      logr.Logger
	pulse    *Pulse
	born     time.Time
	desc     *prometheus.Desc

	calls sync.WaitGroup // of all hearts

	mu      sync.Mutex // protects the fields, and the fields of hearts marked so; never held across a callback
	hearts  map[*Heart]struct{}
	told    []func(Subject)
	running bool
	checked time.Duration // when the last check was finished, by the monitor's clock; of the beginning before the first
}

// self is the monitor's own goroutine.
func self() Subject { return Subject{Controller: "liveness"} }

// New returns a monitor that sends nothing before Run is called.
func New(o Options) *Monitor {
	m := &Monitor{
		interval: cmp.Or(o.Interval, defaultInterval), misses: cmp.Or(o.Misses, defaultMisses), log: o.Log,
		pulse: NewPulse(), born: time.Now(), desc: newDesc(), hearts: map[*Heart]struct{}{},
	}
	if m.log.GetSink() == nil {
		m.log = logr.Discard()
	}
	return m
}

// Notify has f called when a subject is stuck or has recovered, in a goroutine: f may take its time, and changes
// meanwhile become one call. The Monitor may be nil.
func (m *Monitor) Notify(f func(Subject)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, f)
}

// Heart is one subject that is watched. Its methods may be called on nil.
type Heart struct {
	monitor *Monitor
	subject Subject
	request coalescedCall
	report  coalescedCall
	beaten  atomic.Bool // since the monitor looked last

	// The monitor's mutex protects these. Times are of its clock.
	due     time.Duration // when the next heartbeat is due
	asked   bool          // a heartbeat was sent and has not arrived
	askedAt time.Duration
	missed  int
}

// Watch watches a subject until Stop. Each heartbeat calls ask in a goroutine, one call at a time: ask makes the
// subject call Beat. One that does not return delays this subject only.
func (m *Monitor) Watch(s Subject, ask func(*Heart)) *Heart {
	if m == nil {
		return nil
	}
	h := &Heart{monitor: m, subject: s}
	h.request.f = func() { ask(h) }
	h.report.f = func() { m.tell(s) }
	m.mu.Lock()
	defer m.mu.Unlock()
	// Heartbeats of many remotes are spread over the interval.
	h.due = m.awake() + rand.N(m.interval)
	m.hearts[h] = struct{}{}
	return h
}

// Beat notes that the subject makes progress.
func (h *Heart) Beat() {
	if h != nil && !h.beaten.Load() {
		h.beaten.Store(true)
	}
}

// Stop ends the watch.
func (h *Heart) Stop() {
	if h == nil {
		return
	}
	h.monitor.mu.Lock()
	defer h.monitor.mu.Unlock()
	delete(h.monitor.hearts, h)
}

// leaveAfter is how long Run waits at its end for calls of ask that have not returned.
const leaveAfter = time.Second

// Run sends heartbeats until ctx ends. It leaves behind calls that do not return within a second after that: they may
// be a module's.
func (m *Monitor) Run(ctx context.Context) {
	var pulse sync.WaitGroup
	pulse.Go(func() { m.pulse.Run(ctx) })
	defer pulse.Wait()
	m.run(true)
	defer m.run(false)
	defer m.leave()
	ticker := time.NewTicker(m.interval / checksPerInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.check()
		}
	}
}

func (m *Monitor) run(running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.checked = running, m.awake()
}

func (m *Monitor) leave() {
	ended := make(chan struct{})
	go func() { // It ends with the last call.
		defer close(ended)
		m.calls.Wait()
	}()
	bound := time.NewTimer(leaveAfter)
	defer bound.Stop()
	select {
	case <-ended:
	case <-bound.C:
		m.log.Info("Left a goroutine behind: the queue of a controller does not accept a heartbeat, or a function of Notify does not return")
	}
}

// Pulse beats while Run does. It is nil for a nil monitor.
func (m *Monitor) Pulse() *Pulse {
	if m == nil {
		return nil
	}
	return m.pulse
}

// awake is the monitor's clock, without time in which the process was starved.
func (m *Monitor) awake() time.Duration { return time.Since(m.born) - m.pulse.Starved() }

// turn: a subject is stuck from now on, or has recovered.
type turn struct {
	heart  *Heart
	missed int
	stuck  bool
}

func (m *Monitor) check() {
	var due []*Heart
	var turns []turn
	m.mu.Lock()
	now := m.awake()
	for h := range m.hearts {
		before := h.missed >= m.misses
		if h.look(now) {
			due = append(due, h)
		}
		if stuck := h.missed >= m.misses; stuck != before {
			turns = append(turns, turn{h, h.missed, stuck})
		}
	}
	m.mu.Unlock()
	for _, h := range due {
		m.start(&h.request)
	}
	for _, t := range turns {
		m.report(t)
		m.start(&t.heart.report)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked = m.awake()
}

func (m *Monitor) start(c *coalescedCall) { c.start(&m.calls, m.log) }

func (m *Monitor) tell(s Subject) {
	m.mu.Lock()
	told := slices.Clone(m.told)
	m.mu.Unlock()
	for _, f := range told {
		f(s)
	}
}

func (h *Heart) look(now time.Duration) (ask bool) {
	if h.beaten.Swap(false) {
		h.asked, h.missed = false, 0
	}
	if h.asked {
		h.missed = int((now - h.askedAt) / h.monitor.interval)
		return false
	}
	if now < h.due {
		return false
	}
	h.asked, h.askedAt, h.due = true, now, now+h.monitor.interval
	return true
}

func (m *Monitor) report(t turn) {
	s, after := t.heart.subject, time.Duration(t.missed)*m.interval
	log := m.log.WithValues("controller", s.Controller, "cluster", s.Cluster, "module", s.Module)
	switch {
	case !t.stuck:
		log.Info("Heartbeat recovered")
	case s.vital():
		log.Error(fmt.Errorf("%s: no progress for %s", s, after), "Heartbeats missed; /healthz fails and the lease is not renewed")
	default:
		log.Info("Heartbeats missed", "after", after.String())
	}
}

// Missed is a subject that has missed heartbeats.
type Missed struct {
	Subject
	// Beats is how many in a row.
	Beats int
	// Stuck: Beats has reached the limit.
	Stuck bool
}

// Missed returns the subjects that have missed heartbeats, in the order of their names.
func (m *Monitor) Missed() []Missed {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Missed
	for h := range m.hearts {
		if h.missed > 0 && !h.beaten.Load() {
			all = append(all, m.missing(h.subject, h.missed))
		}
	}
	if n := m.lag(); n > 0 {
		all = append(all, m.missing(self(), n))
	}
	slices.SortFunc(all, func(a, b Missed) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func (m *Monitor) missing(s Subject, beats int) Missed { return Missed{s, beats, beats >= m.misses} }

// lag is for how many intervals no check was finished. It needs the lock.
func (m *Monitor) lag() int {
	if !m.running {
		return 0
	}
	return int((m.awake() - m.checked) / m.interval)
}

// Err names the stuck subjects while a vital one is stuck. The monitor's own goroutine is vital.
func (m *Monitor) Err() error {
	var stuck []string
	for _, one := range m.Missed() {
		if one.Stuck && one.vital() {
			stuck = append(stuck, one.String())
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	const shown = 5
	if more := len(stuck) - shown; more > 0 {
		stuck = append(stuck[:shown], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("no progress for %s: %s", time.Duration(m.misses)*m.interval, strings.Join(stuck, "; "))
}
