// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	defaultAfter = 30 * time.Second
	checkEvery   = time.Second
	// ReconcileTimeout bounds the hub's own reconciles, so that workers that wait for a slow API server are free in time.
	ReconcileTimeout = 20 * time.Second
)

// Options configure a Monitor. The zero value is a good one.
type Options struct {
	// After is for how long no worker asks for work until a controller is stuck. Default: 30 s.
	After time.Duration
	// Log gets a line when a controller is stuck or has recovered. Default: discards.
	Log logr.Logger
}

// Subject is a watched controller. One with a Module is of its hub part, any other is the hub's own.
type Subject struct{ Module, Controller string }

// Monitor finds stuck controllers. It is safe for many goroutines, and a nil Monitor watches nothing.
type Monitor struct {
	after time.Duration
	log   logr.Logger
	pulse *Pulse
	born  time.Time

	mu      sync.Mutex // protects the fields; never held across a callback
	watched map[*workers]struct{}
	told    []func(Subject)
}

// New returns a monitor that reports no change before Run is called.
func New(o Options) *Monitor {
	m := &Monitor{
		after: cmp.Or(o.After, defaultAfter), log: o.Log, pulse: NewPulse(), born: time.Now(), watched: map[*workers]struct{}{},
	}
	if m.log.GetSink() == nil {
		m.log = logr.Discard()
	}
	return m
}

// Notify has f called when a controller is stuck or has recovered. f must return at once. The Monitor may be nil.
func (m *Monitor) Notify(f func(Subject)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, f)
}

// Run looks for changes until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	var pulse sync.WaitGroup
	pulse.Go(func() { m.pulse.Run(ctx) })
	defer pulse.Wait()
	var before []Subject
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) {
		now := m.stuck()
		m.report(before, now)
		before = now
	}, checkEvery)
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

// stuck returns the stuck controllers, sorted, and has the length of each queue read for the next call.
func (m *Monitor) stuck() (all []Subject) {
	if m == nil {
		return nil
	}
	latest := m.awake() - m.after
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.watched {
		w.look()
		if w.isStuck(latest) {
			all = append(all, w.subject)
		}
	}
	slices.SortFunc(all, func(a, b Subject) int {
		return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Controller, b.Controller))
	})
	return slices.Compact(all)
}

func (m *Monitor) report(before, now []Subject) {
	m.mu.Lock()
	told := slices.Clone(m.told)
	m.mu.Unlock()
	for _, s := range slices.Concat(before, now) {
		was, is := slices.Contains(before, s), slices.Contains(now, s)
		if was == is {
			continue
		}
		log := m.log.WithValues("controller", s.Controller, "module", s.Module)
		switch {
		case was:
			log.Info("A controller makes progress again")
		case s.Module == "":
			log.Error(m.Err(), "A controller makes no progress; /healthz fails and the lease is not renewed")
		default:
			log.Info("A controller of a hub part makes no progress", "after", m.after.String())
		}
		for _, f := range told {
			f(s)
		}
	}
}

// Stuck returns the stuck controllers of a module's hub part, sorted; for the empty name, those of the hub itself.
func (m *Monitor) Stuck(module string) (controllers []string) {
	for _, s := range m.stuck() {
		if s.Module == module {
			controllers = append(controllers, s.Controller)
		}
	}
	return controllers
}

// Err names the stuck controllers of the hub itself.
func (m *Monitor) Err() error {
	if stuck := m.Stuck(""); len(stuck) > 0 {
		return fmt.Errorf("no progress for %s: controller %s", m.after, strings.Join(stuck, ", "))
	}
	return nil
}
