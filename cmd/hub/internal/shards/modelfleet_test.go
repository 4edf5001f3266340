// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	shardsOfModel   = 4
	clustersOfModel = 6
	// startup is the time until the first fault.
	startup = 30 * time.Second
	// patience is the time within which every Cluster has a writer again, after the last fault.
	patience = 30 * time.Second
)

func timing() Timing {
	return Timing{Duration: 10 * time.Second, Deadline: 7 * time.Second, Retry: 1500 * time.Millisecond}
}

// cluster is a remote that one replica writes to.
type cluster struct {
	uid  types.UID
	once bool // it is not a Cluster, but what runs once
}

func (c cluster) shardOf(count int) int {
	if c.once {
		return Once
	}
	return Of(c.uid, count)
}

// term identifies a writer: the shard and the epoch of a write, as in a user agent, and who sent it.
type term struct {
	shard       int
	epoch       int64
	incarnation string
	process     int
}

type write struct {
	cluster types.UID
	term    term
	late    late // set if it had passed the gate before its process was frozen
}

// late identifies the writes to one Cluster that had passed the gate before one freeze of a process.
type late struct {
	process, freeze int
	cluster         types.UID
}

type history struct {
	seed     uint64
	omit     rules
	faults   []fault // drawn at random; a fault that is in the list twice comes twice as often
	length   time.Duration
	replicas int
	active   []int         // the settings of the processes, in turn; default 0
	odd      bool          // one replica has another number of shards
	calm     bool          // the network is fast and loses nothing but in faults
	spared   bool          // the first replica is never drained
	settle   bool          // check that every Cluster has a writer again
	between  time.Duration // the longest time between two faults; default 4 s
	build    time.Duration // how long apps take to be built; default 2 s
	hesitate time.Duration // the longest time between the gate and the wire; default 30 ms
}

type outcome struct {
	violation string        // two writers, or an epoch that went back
	unserved  time.Duration // the longest time without a write to a Cluster after the faults
	lates     map[late]int  // tolerated writes: they had passed the gate before a freeze
	gap       time.Duration // the longest time between two writes to a Cluster
	writes    int           // to remotes
	faults    map[fault]int // how often each fault came
	moves     int           // changes of the holder of a shard
	reopened  int           // renewals after the deadline, which open the gate again
	drained   int           // shards of drained replicas at the end
}

type fleet struct {
	history
	server   *apiServer
	clusters []cluster
	began    time.Time
	running  sync.WaitGroup

	mu        sync.Mutex
	rng       *rand.Rand
	processes []*process
	started   int
	names     int
	downUntil time.Time
	lossUntil time.Time
	current   map[types.UID]term
	seen      map[types.UID]map[term]bool
	last      map[types.UID]time.Time
	settling  time.Time // zero while there are faults
	outcome
}

func run(t *testing.T, h history) outcome {
	t.Helper()
	var result outcome
	synctest.Test(t, func(*testing.T) {
		w := &fleet{
			history: h, server: newAPIServer(), began: time.Now(), rng: rand.New(rand.NewPCG(h.seed, 0)),
			current: map[types.UID]term{}, seen: map[types.UID]map[term]bool{}, last: map[types.UID]time.Time{},
		}
		w.outcome.faults, w.lates = map[fault]int{}, map[late]int{}
		w.between, w.build = cmp.Or(w.between, 4*time.Second), cmp.Or(w.build, 2*time.Second)
		w.hesitate = cmp.Or(w.hesitate, 30*time.Millisecond)
		w.play()
		result = w.outcome
		if broken := w.server.violation(); broken != "" && result.violation == "" {
			result.violation = broken
		}
	})
	return result
}

// play installs, starts the replicas, draws faults, ends them, and waits.
func (w *fleet) play() {
	for c := range clustersOfModel {
		w.clusters = append(w.clusters, cluster{uid: types.UID(fmt.Sprintf("%d-of-%d", c, w.seed))})
	}
	w.clusters = append(w.clusters, cluster{"once", true})
	for i := range shardsOfModel + 1 {
		_, _ = w.server.write(kindRecord+strconv.Itoa(i), Record{}, "")
	}
	for range w.replicas {
		w.start(w.freshName(), shardsOfModel)
	}
	if w.odd && w.omit[ruleOneNumber] {
		w.start(w.freshName(), shardsOfModel-1)
	}
	<-time.After(startup)
	for time.Since(w.began) < w.length && w.violation() == "" {
		if len(w.history.faults) > 0 {
			w.draw()
		}
		<-time.After(w.between/4 + w.random(w.between*3/4))
	}
	w.endFaults()
	if w.settle && w.violation() == "" {
		<-time.After(patience + 5*time.Second)
		w.checkServed()
	}
	w.moves, w.drained = w.countMoves(), w.countDrained()
	for _, p := range w.all() {
		p.kill()
	}
	w.running.Wait()
}

func (w *fleet) freshName() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	return "replica-" + strconv.Itoa(w.names)
}

func (w *fleet) random(limit time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(limit)))
}

func (w *fleet) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *fleet) violation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcome.violation
}

func (w *fleet) all() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*process(nil), w.processes...)
}

func (w *fleet) alive() (running []*process) {
	for _, p := range w.all() {
		if p.isRunning() {
			running = append(running, p)
		}
	}
	return running
}

// loss is the probability that a request, or a response, is lost.
func (w *fleet) loss() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case time.Now().Before(w.lossUntil):
		return 0.3
	case w.settling.IsZero() && !w.calm:
		return 0.01
	}
	return 0
}

func (w *fleet) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm || !w.settling.IsZero()
}

func (w *fleet) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.downUntil)
}

// arrive is the remote: it receives a write and checks that no later writer has written before.
func (w *fleet) arrive(x write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	now, current := w.current[x.cluster], x.term
	seen := w.seen[x.cluster]
	if seen == nil {
		seen = map[term]bool{}
		w.seen[x.cluster] = seen
	}
	isOld := seen[current] || current.shard == now.shard && current.epoch <= now.epoch
	switch {
	case current == now:
	case len(seen) > 0 && isOld && x.late != late{} && w.lates[x.late] == 0:
		w.lates[x.late]++
		return
	case len(seen) > 0 && isOld:
		w.outcome.violation = fmt.Sprintf("after %s, %s: a write of %+v after a write of %+v",
			time.Since(w.began).Round(time.Millisecond), x.cluster, current, now)
	}
	w.noteWrite(x)
}

// noteWrite makes the writer the current one. The caller holds w.mu.
func (w *fleet) noteWrite(x write) {
	w.current[x.cluster], w.seen[x.cluster][x.term] = x.term, true
	if !w.settling.IsZero() {
		from := w.settling
		if last := w.last[x.cluster]; last.After(from) {
			from = last
		}
		w.unserved = max(w.unserved, time.Since(from))
	}
	if last, written := w.last[x.cluster]; written {
		w.gap = max(w.gap, time.Since(last))
	}
	w.last[x.cluster] = time.Now()
}

func (w *fleet) checkServed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		from := w.settling
		if last := w.last[c.uid]; last.After(from) {
			from = last
		}
		if gap := time.Since(from); gap > 5*time.Second {
			w.unserved = max(w.unserved, gap)
		}
	}
}

func (w *fleet) noteReopened() { w.set(func() { w.reopened++ }) }

func (w *fleet) countDrained() (n int) {
	wished, _ := w.server.get(kindWish).(wish)
	for i := range shardsOfModel + 1 {
		if r, _ := w.server.get(kindRecord + strconv.Itoa(i)).(Record); wished.drained[PodOf(r.Holder)] {
			n++
		}
	}
	return n
}

// countMoves counts how often a shard that had a holder got another one, after the startup.
func (w *fleet) countMoves() (moves int) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	last := map[string]string{}
	for _, c := range w.server.history {
		r, isRecord := c.value.(Record)
		if !isRecord || r.Holder == "" {
			continue
		}
		if before, had := last[c.key]; had && before != r.Holder && c.at.Sub(w.began) > startup {
			moves++
		}
		last[c.key] = r.Holder
	}
	return moves
}
