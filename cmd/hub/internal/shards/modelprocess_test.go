// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The rules that the component which carries out the actions keeps.
const (
	ruleFromBegin      rule = "from-begin"      // a renewal counts from its beginning
	ruleTakeCAS        rule = "take-cas"        // records are written by compare-and-swap
	ruleOverwriteCAS   rule = "overwrite-cas"   // the Lease of another replica is overwritten by compare-and-swap
	ruleRenewCAS       rule = "renew-cas"       // a renewal is a compare-and-swap, and creates no Lease again
	ruleNewIncarnation rule = "new-incarnation" // a replica that has lost its Lease gets another name
	ruleOneNumber      rule = "one-number"      // a replica with another number of shards does not start
	ruleGate           rule = "gate"            // each write asks the gate
)

const (
	requestTimeout = 3500 * time.Millisecond // of the hub's API server: half of the deadline
	writeTimeout   = 2200 * time.Millisecond // of a remote
	writeLatency   = 2 * time.Second         // the longest way of a write to a remote
	resync         = 300 * time.Millisecond
)

// process is a replica: it carries out what a Machine decides. Its goroutines wait in wait and call only, where they stop
// while the process is frozen and end when it is killed.
type process struct {
	w     *fleet
	name  string
	count int // of shards
	id    int

	rate    float64 // of its monotonic clock
	offset  time.Duration
	spawned atomic.Int64 // goroutines

	mu        sync.Mutex
	dice      rand.PCG
	cast      time.Time // when the dice were set
	machine   *Machine
	lives     int
	frozen    chan struct{} // nil while the process runs
	frozenAt  time.Time
	freezes   int
	stopped   int // goroutines in this freeze
	suspends  bool
	suspended time.Duration // by which the monotonic clock is behind
	dead      chan struct{}
	isDead    bool
	cutUntil  time.Time
	hungUntil time.Time
	stalled   map[string]time.Time
	seen      map[string]int       // the place of each watch in the history
	horizon   map[string]time.Time // up to which each watch has delivered
	inFlight  map[int]int
	built     map[int]bool
	busy      map[string]bool
	wished    wish
	active    int // the setting of this process
}

func (w *fleet) start(name string, count int) *process {
	w.mu.Lock()
	w.started++
	id := w.started
	w.mu.Unlock()
	p := &process{
		w: w, name: name, count: count, id: id, dead: make(chan struct{}),
		stalled: map[string]time.Time{}, seen: map[string]int{}, horizon: map[string]time.Time{},
		inFlight: map[int]int{}, busy: map[string]bool{},
	}
	if len(w.active) > 0 {
		p.active = w.active[id%len(w.active)]
	}
	p.rate = 0.97 + 0.06*p.rng().Float64()
	p.offset = time.Duration(p.rng().Int64N(int64(time.Minute))) - 30*time.Second
	p.reincarnate()
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	p.spawn(p.renew)
	p.spawn(p.decide)
	p.spawn(p.keepAssigned)
	for _, c := range w.clusters {
		p.spawn(func() { p.work(c) })
	}
	return p
}

// spawn starts a goroutine that ends when the process is dead. No two goroutines of a process begin at the same instant.
func (p *process) spawn(f func()) {
	later := time.Duration(p.spawned.Add(1))
	p.w.running.Go(func() {
		<-time.After(later)
		p.point()
		f()
	})
}

// rng returns random numbers that depend on the seed, the process and the instant, and not on the order in which goroutines
// run: a history can be repeated. The caller holds p.mu.
func (p *process) rng() *rand.Rand {
	if now := time.Now(); !now.Equal(p.cast) {
		p.cast = now
		p.dice.Seed(p.w.seed<<32|uint64(p.id), uint64(now.UnixNano()))
	}
	return rand.New(&p.dice)
}

func (p *process) random(limit time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.rng().Int64N(int64(limit)))
}

func (p *process) chance(probability float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng().Float64() < probability
}

// wait waits, and longer while the process is frozen.
func (p *process) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.dead:
	}
	p.point()
}

// point waits while the process is frozen, and ends the goroutine if the process is dead. After a freeze the goroutines
// continue in the order in which they stopped.
func (p *process) point() {
	for {
		p.mu.Lock()
		frozen, isDead := p.frozen, p.isDead
		p.stopped++
		place := time.Duration(p.stopped)
		p.mu.Unlock()
		if isDead {
			runtime.Goexit()
		}
		if frozen == nil {
			return
		}
		select {
		case <-frozen:
			<-time.After(place)
		case <-p.dead:
		}
	}
}

// now reads the clocks of the process. The caller holds p.mu.
func (p *process) now() Instant {
	elapsed := time.Since(p.w.began)
	monotonic := time.Duration(p.rate * float64(elapsed-p.suspended))
	return Instant{Monotonic: p.w.began.Add(monotonic), Wall: p.w.began.Add(elapsed + p.offset)}
}

func (p *process) reincarnate() {
	p.lives++
	me := Incarnation(p.name, fmt.Sprintf("%d.%d", p.id, p.lives))
	if p.w.omit[ruleNewIncarnation] {
		me = Incarnation(p.name, strconv.Itoa(p.id))
	}
	before := p.machine
	p.machine = New(me, p.count, timing())
	p.machine.omit = p.w.omit
	p.built, p.busy = map[int]bool{}, map[string]bool{}
	p.seen, p.wished = map[string]int{}, wish{}
	if before != nil && p.w.omit[ruleNewIncarnation] { // It keeps its shards.
		p.machine.shards = before.shards
		for i := range p.machine.shards {
			s := &p.machine.shards[i]
			if s.record.Holder == p.machine.me {
				s.held, s.ended = s.record.Epoch, 0
			}
		}
	}
}

// call sends a request to the hub's API server and returns the response. The request or the response may be lost or late;
// a request that was sent arrives even if the process has been killed or frozen.
func (p *process) call(request func() (any, error)) (any, error) {
	type response struct {
		value any
		err   error
	}
	there, back := p.latency(), p.latency()
	lost, unanswered := p.chance(p.w.loss()), p.chance(p.w.loss())
	answered := make(chan response, 1)
	p.w.running.Go(func() {
		<-time.After(there)
		if lost || p.isCut() {
			return
		}
		value, err := request()
		<-time.After(back)
		if !unanswered && !p.isCut() {
			answered <- response{value, err}
		}
	})
	deadline := time.After(requestTimeout)
	for {
		select {
		case r := <-answered:
			p.point()
			return r.value, r.err
		case <-deadline:
			p.point()
			return nil, errTimeout
		case <-p.dead:
			p.point()
		}
	}
}

// latency is mostly short, sometimes close to the timeout and sometimes longer.
func (p *process) latency() time.Duration {
	if p.chance(0.03) && !p.w.isCalm() {
		return p.random(5 * time.Second)
	}
	return time.Millisecond + p.random(40*time.Millisecond)
}

func (p *process) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.cutUntil) || p.w.isDown()
}

// watch returns the changes of a kind that have arrived since the last call. Watches of two kinds are not in step.
func (p *process) watch(kind string) []change {
	lag := p.random(150 * time.Millisecond)
	if p.chance(0.05) && !p.w.isCalm() {
		lag = p.random(3 * time.Second)
	}
	if p.isCut() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.stalled[kind]) {
		return nil
	}
	if until := time.Now().Add(-lag); until.After(p.horizon[kind]) {
		p.horizon[kind] = until
	}
	changes, next := p.w.server.since(p.seen[kind], kind, p.horizon[kind])
	p.seen[kind] = next
	return changes
}

func (p *process) freeze(suspends bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil && !p.isDead {
		p.frozen, p.frozenAt, p.suspends = make(chan struct{}), time.Now(), suspends
		p.stopped = 0
		p.freezes++
	}
}

// thaw lets the process continue. The changes that it has missed arrive a little later.
func (p *process) thaw() {
	backlog := map[string]time.Duration{}
	for _, kind := range []string{kindLease, kindRecord, kindWish} {
		backlog[kind] = p.random(6 * time.Second)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		return
	}
	if p.suspends {
		p.suspended += time.Since(p.frozenAt)
	}
	for kind, late := range backlog {
		p.stalled[kind] = time.Now().Add(late)
	}
	close(p.frozen)
	p.frozen = nil
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isDead {
		p.isDead = true
		close(p.dead)
	}
}

func (p *process) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.hungUntil)
}

func (p *process) isRunning() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isDead && p.frozen == nil
}
