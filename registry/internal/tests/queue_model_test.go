// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

type taken struct {
	key      string
	priority int
}

// worker has a queue, and calls Get in a goroutine of its own.
type worker struct {
	priorityqueue.PriorityQueue[string]
	got     chan taken
	waiting bool
}

func newWorker(q priorityqueue.PriorityQueue[string]) *worker {
	return &worker{PriorityQueue: q, got: make(chan taken, 1)}
}

// get returns the next item, or says that there is none. Then the call of Get continues until there is one.
func (w *worker) get() (next taken, ok bool) {
	if !w.waiting {
		w.waiting = true
		go func() {
			if key, priority, shutdown := w.GetWithPriority(); !shutdown {
				w.got <- taken{key, priority}
			}
		}()
	}
	synctest.Wait()
	select {
	case next = <-w.got:
		w.waiting = false
		return next, true
	default:
		return taken{}, false
	}
}

// model runs the same steps with both queues.
type model struct {
	t            *testing.T
	random       *rand.Rand
	ours, theirs *worker
	inWork       []string
	steps        []string
}

func (m *model) both(step string, do func(w *worker)) {
	m.steps = append(m.steps, step)
	do(m.ours)
	do(m.theirs)
	synctest.Wait()
}

func (m *model) add() {
	o, priority := priorityqueue.AddOpts{}, m.random.IntN(3)-1
	if m.random.IntN(2) == 0 {
		o.Priority = &priority
	}
	if m.random.IntN(2) == 0 {
		o.After = time.Duration(m.random.IntN(6)-1) * time.Second
	}
	o.RateLimited = m.random.IntN(4) == 0
	keys := make([]string, m.random.IntN(3)+1)
	for i := range keys {
		keys[i] = string(rune('a' + m.random.IntN(8)))
	}
	step := fmt.Sprintf("add %v, priority %d (%v), after %v, limited %v", keys, priority, o.Priority != nil, o.After, o.RateLimited)
	m.both(step, func(w *worker) { w.AddWithOpts(o, keys...) })
}

func (m *model) get() {
	want, wantOK := m.theirs.get()
	got, ok := m.ours.get()
	m.steps = append(m.steps, fmt.Sprintf("get %v %v", want, wantOK))
	if got != want || ok != wantOK {
		m.t.Fatalf("Get: got %v %v, want %v %v after the steps\n%q", got, ok, want, wantOK, m.steps)
	}
	if ok {
		m.inWork = append(m.inWork, got.key)
	}
}

func (m *model) done() {
	if len(m.inWork) == 0 {
		return
	}
	n := m.random.IntN(len(m.inWork))
	key := m.inWork[n]
	m.inWork = append(m.inWork[:n], m.inWork[n+1:]...)
	m.both("done "+key, func(w *worker) { w.Done(key) })
}

func (m *model) forget() {
	key := string(rune('a' + m.random.IntN(8)))
	m.both("forget "+key, func(w *worker) { w.Forget(key) })
}

func (m *model) pass() {
	d := time.Duration(m.random.IntN(3)) * time.Second
	m.both("time "+d.String(), func(*worker) {})
	<-time.After(d)
	synctest.Wait()
}

func (m *model) run(steps int) {
	for range steps {
		switch n := m.random.IntN(10); {
		case n < 4:
			m.add()
		case n < 6:
			m.get()
		case n < 8:
			m.done()
		case n < 9:
			m.pass()
		default:
			m.forget()
		}
		if got, want := m.ours.Len(), m.theirs.Len(); got != want {
			m.t.Fatalf("Len: got %d, want %d after the steps\n%q", got, want, m.steps)
		}
	}
}

// The queue and controller-runtime's queue do the same at each step of random sequences.
func TestQueue_AsControllerRuntime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &model{
					t: t, random: rand.New(rand.NewPCG(seed, 0)),
					ours: newWorker(contain.NewQueue("", newLimiter(), nil)),
					theirs: newWorker(priorityqueue.New("", func(o *priorityqueue.Opts[string]) {
						o.RateLimiter = newLimiter()
					})),
				}
				defer m.ours.ShutDown()
				defer m.theirs.ShutDown()
				m.run(300)
			})
		})
	}
}
