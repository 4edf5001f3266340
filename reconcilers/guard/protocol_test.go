// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// The property test of this file covers the lock alone, in virtual time: hundreds of histories with slow requests, lost
// responses and dying processes would take hours against an API server. The API server only contributes a register with
// conditional writes, which is easy to verify. crash_test.go tests the same property against real API servers.

const (
	protocolTTL = 10 * time.Second
	changes     = 5               // number of changes, one after the other
	storm       = 5 * time.Minute // afterwards requests are fast and reliable, so that the history ends
)

var errDead = errors.New("the process is dead")

// TestProtocol_OneTaskAtATimeAndEveryChangeOnce runs two replicas that make changes in an external system that honours
// attempt IDs. Their clocks differ, and run at different speeds; requests and responses are slow or lost, requests
// arrive long after their sender's timeout; replicas are cut off; processes die at any time and start again.
func TestProtocol_OneTaskAtATimeAndEveryChangeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) { // runs ten times
		for range 30 {
			w, replicas := drawHistory(rt)
			synctest.Test(t, func(t *testing.T) { w.live(t.Context(), replicas) })
			for _, v := range w.violations {
				rt.Error(v)
			}
		}
	})
}

func drawHistory(rt *rapid.T) (w *model, replicas []*replica) {
	w = &model{
		seed: rapid.Uint64().Draw(rt, "seed"),
		slow: rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, protocolTTL}).Draw(rt, "slow"),
		loss: rapid.Float64Range(0, 0.3).Draw(rt, "loss"),
		work: rapid.SampledFrom([]time.Duration{time.Second, 3 * protocolTTL}).Draw(rt, "work"),
		made: map[string]bool{},
	}
	for i := range 2 {
		replicas = append(replicas, &replica{
			model: w, number: i,
			offset: time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(rt, "offset")),
			speed:  rapid.Float64Range(0.9, 1.1).Draw(rt, "speed"),
			cuts:   rapid.SliceOfN(rapid.Int64Range(0, int64(storm)), 0, 10).Draw(rt, "cuts"),
			deaths: rapid.SliceOfN(rapid.Int64Range(0, int64(time.Minute)), 0, 6).Draw(rt, "deaths"),
		})
	}
	return w, replicas
}

// model is the register, the external system, and the state of the replicas.
type model struct {
	seed uint64
	slow time.Duration // maximum time of a request; occasionally ten times as long
	loss float64       // of requests and of responses
	work time.Duration // maximum time of a task

	mu         sync.Mutex
	begin      time.Time
	entry      entry
	version    int64
	made       map[string]bool // attempts in the external system
	working    string          // the life with a task
	violations []string
}

func (w *model) live(ctx context.Context, replicas []*replica) {
	w.entry.lock = lock.State{Type: "Done"}
	w.begin = time.Now()
	var all sync.WaitGroup
	for _, r := range replicas {
		r.random = rand.New(rand.NewPCG(w.seed, uint64(r.number)))
		all.Go(func() { r.live(ctx) })
	}
	all.Wait()
	w.mu.Lock()
	if w.entry.lock.Settled != settledAfter(changes) || len(w.made) != changes {
		w.violations = append(w.violations, fmt.Sprintf("settled %q, and %d changes were made", w.entry.lock.Settled, len(w.made)))
	}
	w.mu.Unlock()
	synctest.Wait()
	<-time.After(time.Hour) // Late requests arrive, and change nothing.
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made) != changes || w.entry.lock.Holder != "" {
		w.violations = append(w.violations, fmt.Sprintf("later: %d changes, holder %q", len(w.made), w.entry.lock.Holder))
	}
}

func (w *model) violation(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func settledAfter(n int) string { return fmt.Sprintf("Made%d", n) }

// replica is a process that occasionally dies and starts again.
type replica struct {
	*model
	number int
	offset time.Duration
	speed  float64
	cuts   []int64 // starts of the cuts, two TTLs each
	deaths []int64 // lengths of the lives; the last life has no end
	random *rand.Rand
}

func (r *replica) live(ctx context.Context) {
	for i, d := range r.deaths {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(d))
		r.life(ctx, i)
		cancel()
	}
	r.life(ctx, len(r.deaths))
}

// life is one process from its start to its death, when ctx ends, or to the last change.
func (r *replica) life(ctx context.Context, n int) {
	l := &life{replica: r, name: fmt.Sprintf("replica-%d-life-%d", r.number, n), death: ctx}
	o, err := Options[*corev1.ConfigMap]{Name: "test", TTL: protocolTTL}.withDefaults()
	if err != nil {
		panic(err)
	}
	h := &Host[*corev1.ConfigMap]{
		options: o, holder: l.name, clock: drifting{start: time.Now(), offset: r.offset, speed: r.speed},
		others: cache.NewLRUExpireCache(maxObservations),
	}
	for ctx.Err() == nil {
		l.pause(time.Second)
		s, err := l.read(ctx)
		if err != nil {
			continue
		}
		if s.lock.Settled == settledAfter(changes) {
			return
		}
		c := &Controller[*corev1.ConfigMap]{
			host: h, store: l, object: s.object, seen: s.entry, precondition: preconditionOf(s.object),
			key: lockKey{uid: s.object.UID, kind: "Done"},
		}
		_ = c.Guard(context.WithoutCancel(ctx), "make", func(ctx context.Context, a Attempt) (Outcome, error) {
			return l.task(ctx, a, c)
		})
	}
}

// life is a process's access to the model, which ends with the process.
type life struct {
	*replica
	name  string
	death context.Context //nolint:containedctx // it is the life
}

// task makes the next change, unless the change of its attempt already exists.
func (l *life) task(ctx context.Context, a Attempt, c *Controller[*corev1.ConfigMap]) (Outcome, error) {
	l.mu.Lock()
	if l.working != "" {
		l.violation("%s begins a task while %s has one", l.name, l.working)
	}
	l.working = l.name
	l.mu.Unlock()
	stop := context.AfterFunc(l.death, l.rest) // The task ends with the process.
	defer stop()
	defer l.rest()
	if err := l.step(ctx, l.some(l.work)); err != nil {
		return Outcome{}, err
	}
	if err := l.request(ctx, func() { l.made[a.ID] = true }); err != nil {
		return Outcome{}, err
	}
	if err := l.step(ctx, l.some(l.work)); err != nil {
		return Outcome{}, err
	}
	var n int
	_, _ = fmt.Sscanf(c.Settled(), "Made%d", &n)
	return Outcome{Status: metav1.ConditionTrue, Reason: settledAfter(n + 1)}, nil
}

func (l *life) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.working == l.name {
		l.working = ""
	}
}

func (l *life) some(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(d)))
}

func (l *life) chance(p float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.Float64() < p
}

func (l *life) pause(d time.Duration) { _ = l.step(l.death, l.some(d)) }

func (l *life) step(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.death.Done():
		return errDead
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return l.death.Err()
	}
}

// request makes another client call f. The call may happen even if request returns an error, and then also after
// request has returned or the process is dead.
func (l *life) request(ctx context.Context, f func()) error {
	if l.death.Err() != nil {
		return errDead
	}
	slow, loss := l.slow, l.loss
	if time.Since(l.begin) > storm {
		slow, loss = 10*time.Millisecond, 0
	}
	for _, cut := range l.cuts {
		if since := time.Since(l.begin) - time.Duration(cut); since > 0 && since < 2*protocolTTL {
			loss = 1
		}
	}
	there, back := l.some(slow), l.some(slow)
	if l.chance(0.05) {
		there *= 10
	}
	if l.chance(0.05) {
		back *= 10
	}
	answer := make(chan struct{}, 1)
	if !l.chance(loss) {
		lost := l.chance(loss)
		time.AfterFunc(there, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			f()
			if !lost {
				answer <- struct{}{}
			}
		})
	}
	timeout := time.NewTimer(20*slow + time.Second)
	defer timeout.Stop()
	select {
	case <-answer:
		return l.step(ctx, back)
	case <-l.death.Done():
		return errDead
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return errors.New("no answer")
	}
}

func (l *life) view(context.Context, *corev1.ConfigMap) (entry, error) { return entry{}, nil }

func (l *life) discard(ctx context.Context, may func(lock.State) error) (func(context.Context) error, error) {
	return statusStore[*corev1.ConfigMap]{}.discard(ctx, may)
}

func (l *life) read(ctx context.Context) (s snapshot[*corev1.ConfigMap], err error) {
	var found snapshot[*corev1.ConfigMap]
	err = l.request(ctx, func() {
		found = snapshot[*corev1.ConfigMap]{entry: l.entry, object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "object", UID: "uid", Generation: 1, ResourceVersion: fmt.Sprint(l.version),
		}}}
	})
	if err != nil {
		return s, err
	}
	return found, nil
}

func (l *life) write(ctx context.Context, s snapshot[*corev1.ConfigMap]) (*corev1.ConfigMap, error) {
	conflict := false
	err := l.request(ctx, func() {
		if conflict = s.object.ResourceVersion != fmt.Sprint(l.version); !conflict {
			l.entry = s.entry
			l.version++
		}
	})
	switch {
	case err != nil:
		return s.object, err
	case conflict:
		return s.object, apierrors.NewConflict(schema.GroupResource{}, "object", nil)
	}
	return s.object, nil
}

// drifting is a clock with a wrong time and a wrong speed.
type drifting struct {
	start  time.Time
	offset time.Duration
	speed  float64
}

func (d drifting) now() time.Time {
	return d.start.Add(d.offset + time.Duration(float64(time.Since(d.start))*d.speed))
}

func (d drifting) within(ctx context.Context, t time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(float64(t)/d.speed))
}
