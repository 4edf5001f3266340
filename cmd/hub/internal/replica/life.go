// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const (
	rounds = 5  // rounds per retry in which the Machine is asked, if nothing happens.
	atOnce = 16 // atOnce requests for actions are on their way.
	// lastGroup of a UUID is 48 random bits without a dash: no other incarnation of a Pod has them.
	lastGroup = 24
)

var errNotYet = errors.New("the action is not permitted yet") // errNotYet: the action is tried again like one that failed.

type life struct {
	options Options
	store   *store
	me      string // the incarnation, and the name of its Lease
	log     logr.Logger

	running sync.WaitGroup      // all goroutines of this life
	kicked  chan struct{}       // requests a round
	hurried chan struct{}       // requests a renewal
	slots   *semaphore.Weighted // limits the requests of actions

	mu       sync.RWMutex // gates hold it for reading, everything else for writing
	machine  *shards.Machine
	claimed  bool
	leaving  bool
	released bool      // it has left but for its Lease, which is released next
	renewed  time.Time // the end of the last renewal
	began    time.Time // its beginning, from which the gate counts
	synced   time.Time // when the Leases of others were read first
	heard    time.Time // the last event of the own Lease
	apps     []apps
	busy     map[string]bool // objects with an action in progress
	view     view
	pins     shards.Pins
	pinned   time.Time // the last time that pins were read
}

func newLife(r *Replica) *life {
	me := shards.Incarnation(r.options.Pod, string(uuid.NewUUID())[lastGroup:])
	return &life{
		options: r.options, store: r.store, me: me, log: r.options.Log.WithValues("lease", me),
		kicked: make(chan struct{}, 1), hurried: make(chan struct{}, 1), slots: semaphore.NewWeighted(atOnce),
		machine: shards.New(me, r.options.Count, r.options.Timing), apps: make([]apps, r.options.Count+1),
		busy: map[string]bool{},
		view: view{leases: map[string]*coordinationv1.Lease{}, records: make([]*coordinationv1.Lease, r.options.Count+1), versions: make([]string, r.options.Count+1)},
	}
}

// live outlasts ctx, whose end begins the orderly end. It fails if the replica cannot leave in time.
func (r *Replica) live(ctx context.Context) error {
	l := newLife(r)
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer l.running.Wait()
	defer end()
	r.life.Store(l)
	defer r.life.Store(nil)
	l.running.Go(func() { l.keepLease(alive) })
	l.running.Go(func() { l.watch(alive) })
	return l.decide(alive, ctx.Done())
}

// decide ends with the incarnation. leave begins the orderly end.
func (l *life) decide(alive context.Context, leave <-chan struct{}) error {
	tick := time.NewTicker(l.options.Timing.Retry / rounds)
	defer tick.Stop()
	var tooLate <-chan time.Time
	for {
		l.readPins()
		l.round(alive, l.options.Sizes())
		if l.isOver() {
			return nil
		}
		select {
		case <-leave:
			leave = nil
			tooLate = l.leave()
		case <-tooLate:
			return l.notLeft()
		case <-l.kicked:
		case <-tick.C:
		}
	}
}

// leave returns a channel that delivers when it takes too long.
func (l *life) leave() (tooLate <-chan time.Time) {
	l.mu.Lock()
	l.leaving = true
	now := present()
	by := now.Monotonic
	l.machine.Leave(by)
	if len(l.machine.Live(now)) > 0 { // Without another replica there is no hand-over to wait for.
		l.machine.Leave(by.Add(l.options.Timing.Duration))
	}
	held := len(l.machine.Held())
	l.mu.Unlock()
	l.log.Info("Leaving", "shards", held)
	signal(l.hurried)
	return time.After(l.options.LeaveTimeout)
}

func (l *life) notLeft() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("the replica %s has not released its Lease and %d shards within %s; other replicas take them when its Lease "+
		"expires: see whether the API server responds and whether writes to remotes end",
		l.options.Pod, len(l.machine.Held()), l.options.LeaveTimeout)
}

func (l *life) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.machine.Lost() && (l.claimed || !l.leaving) {
		return false
	}
	for i := range l.apps {
		if a := &l.apps[i]; a.busy || a.state != cold {
			return false
		}
	}
	return true
}

func (l *life) round(ctx context.Context, sizes []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := present()
	l.beginAssignment(ctx, now)
	for _, a := range shards.InOrder(l.machine.Decide(now), sizes) {
		l.beginAction(ctx, a)
	}
	for shard := range l.apps {
		l.beginCall(ctx, shard)
	}
	l.beginCleanup(ctx, now)
	if l.machine.HasLeft() && !l.released {
		l.released = true
		signal(l.hurried)
	}
}

// begin runs one task at a time for each key. One that fails keeps its key until the next try; one without a slot is left for the
// next round, when another has ended. It needs l.mu.
func (l *life) begin(ctx context.Context, key string, task func(context.Context) error) {
	if l.busy[key] || !l.slots.TryAcquire(1) {
		return
	}
	l.busy[key] = true
	l.running.Go(func() {
		defer signal(l.kicked)
		defer l.free(key)
		err := task(ctx)
		l.slots.Release(1)
		signal(l.kicked) // Another may begin.
		if err == nil || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errNotYet) {
			l.log.Error(err, "Failed to carry out an action of the protocol", "object", key)
		}
		Pause(ctx, l.options.Timing.Retry)
	})
}

func (l *life) free(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, key)
}

func present() shards.Instant {
	now := time.Now()
	return shards.Instant{Monotonic: now, Wall: now.Round(0)}
}

func signal(requests chan<- struct{}) {
	select {
	case requests <- struct{}{}:
	default:
	}
}

// Pause returns after a time, or when ctx has ended.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
