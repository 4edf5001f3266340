// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Actor owns one remote: only its goroutine changes what is known of the remote and its apps. It waits for nothing but
// its inbox and the clock, so that it handles a new desired state at once.
type Actor struct {
	host *Common
	name state.ClusterName
	log  logr.Logger

	mu       sync.Mutex // protects the inbox, the fields up to overtaken; held for no longer than an append
	config   state.Desired
	changed  bool // config is not applied yet
	stop     bool
	removeBy time.Time // until when cleanup steps may delay the stop
	inbox    []func()
	// overtaken is closed when a later desired state cancels a posted stop; nil while no stop is posted.
	overtaken chan struct{}

	wake    chan struct{} // capacity 1: the inbox is not empty
	current atomic.Pointer[Snapshot]
	latest  atomic.Pointer[state.Desired] // applied, for the running apps
	done    chan struct{}                 // closed when the actor has ended
	// undone names the work that a removal would leave undone if it ended now; nil without a removal.
	undone atomic.Pointer[Leftover]

	facts      Facts
	unstreamed cache.Unstreamed

	// Everything below belongs to the actor's goroutine.
	machine machine.Machine
	applied state.Desired
	wants   machine.Want // applied, reduced
	choosing
	link, spare *probe.Connection
	early       map[*probe.Connection]*restmapper.Early
	credentials map[string]namedCredential // by fingerprint: the credentials that the machine may name
	kept        inUse                      // their names
	published   plainStatus                // the status of the Snapshot
	cancelTrial context.CancelFunc         // of the trial under way; nil before the first
	epochs      map[int64]*app.Life        // the epochs that the machine knows
	retired     []*app.Life                // replaced epochs that only own leases
	modules     []state.ModuleStatus       // how the modules of the last epoch ended
	steps       map[int64][]string         // the cleanup steps of each app that was built, by epoch
	owed        map[string]bool            // the steps of all apps so far that were not done yet
	removal     *Leftover                  // the work that a removal has left undone so far
	cleaning    <-chan struct{}            // closed when the cleanup steps have ended; nil before they begin
	beforeStop  state.Status               // the status before the last stop was posted
	work        sync.WaitGroup             // goroutines that end soon after the event they wait for
}

// New returns the Actor of a new remote. The caller runs it.
func New(host *Common, name state.ClusterName, config state.Desired) *Actor {
	a := &Actor{
		host:    host,
		name:    name,
		log:     host.Log.WithValues("cluster", string(name)),
		config:  config,
		changed: true,
		early:   map[*probe.Connection]*restmapper.Early{},
		epochs:  map[int64]*app.Life{},
		steps:   map[int64][]string{},
		owed:    map[string]bool{},
		removal: &Leftover{},
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	a.machine.Jitter = rand.Float64
	a.machine.NextEpoch = func() int64 { return host.NextEpoch() }
	now := time.Now()
	info := a.describe(now)
	info.Since = now
	a.current.Store(&Snapshot{Status: info, Changed: make(chan struct{})})
	return a
}

// Want posts a desired state. The latest one wins.
func (a *Actor) Want(config state.Desired) {
	a.mu.Lock()
	a.config, a.changed, a.stop, a.removeBy = config, true, false, time.Time{}
	if a.overtaken != nil {
		close(a.overtaken)
		a.overtaken = nil
	}
	a.mu.Unlock()
	a.signal()
}

// Relabel posts labels and annotations, and keeps the rest of the desired state.
func (a *Actor) Relabel(labels, annotations map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if maps.Equal(a.config.Labels, labels) && maps.Equal(a.config.Annotations, annotations) {
		return
	}
	a.config.Labels, a.config.Annotations, a.changed = labels, annotations, true
	a.signal()
}

// Stop posts a stop of the remote; cleanup steps may delay it until removeBy, the zero time for no delay. The channel
// is closed if a desired state is posted before the remote is forgotten.
func (a *Actor) Stop(removeBy time.Time) (overtaken <-chan struct{}) {
	a.mu.Lock()
	a.stop, a.removeBy = true, removeBy
	if a.overtaken == nil {
		a.overtaken = make(chan struct{})
	}
	overtaken = a.overtaken
	a.mu.Unlock()
	a.signal()
	return overtaken
}

// StopPosted reports whether a stop is posted, although the Actor may not have handled it yet.
func (a *Actor) StopPosted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stop
}

// post gives a fact to the machine in the actor's goroutine.
func (a *Actor) post(f machine.Fact) { a.do(func() { a.learn(f) }) }

func (a *Actor) do(f func()) {
	a.mu.Lock()
	a.inbox = append(a.inbox, f)
	a.mu.Unlock()
	a.signal()
}

// learn is called in the actor's goroutine.
func (a *Actor) learn(f machine.Fact) { a.machine.Apply(f, time.Now()) }

// ProbeNow asks for a probe of the connection in use.
func (a *Actor) ProbeNow() {
	a.do(func() {
		if a.link != nil {
			a.link.ProbeNow()
		}
	})
}

// Name returns the name of the remote.
func (a *Actor) Name() state.ClusterName { return a.name }

// OffersChanged makes the Actor choose its modules again, because a hub part shares other values.
func (a *Actor) OffersChanged() { a.do(func() { a.asked = true }) }

// Done returns a channel that is closed when the Actor has ended and the remote is forgotten.
func (a *Actor) Done() <-chan struct{} { return a.done }

// LeftoverNow returns the work that a removal would leave undone if it ended now, or nil without a removal.
func (a *Actor) LeftoverNow() *Leftover { return a.undone.Load() }

func (a *Actor) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run is the actor's goroutine. It returns when the remote has been stopped and forgotten.
func (a *Actor) Run() {
	defer close(a.done)
	defer a.work.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.wake:
		case <-timer.C:
		}
		if a.step(time.Now()) {
			return
		}
		if at := a.machine.WakeAt(time.Now()); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
	}
}

func (a *Actor) step(now time.Time) (over bool) {
	a.mu.Lock()
	config, changed, stop, removeBy, inbox := a.config, a.changed, a.stop, a.removeBy, a.inbox
	a.inbox, a.changed = nil, false
	a.mu.Unlock()

	if changed {
		a.take(config)
	}
	if stop && !a.wants.Stop {
		a.beforeStop = a.current.Load().Status
	}
	a.wants.Stop, a.wants.RemoveBy = stop, removeBy
	a.machine.ApplyWant(a.wants)
	for _, f := range inbox {
		f()
	}
	a.choose(now)
	a.keepCredentials()
	for _, act := range a.machine.Decide(now) {
		if act.Kind == machine.Forget {
			over = true
			continue
		}
		a.perform(act, now)
	}
	a.pace(config.Probe)
	a.inquire()
	if stop || config.Paused || config.Warm || !a.machine.Usable(&a.machine.Connection) {
		a.endRetired()
	}
	a.noteUndone(stop)
	if over && a.host.Forget(a, func() { a.publish(now, true) }) {
		return true
	}
	a.publish(now, false)
	return false
}

func (a *Actor) wanted(c state.Desired) machine.Want {
	return machine.Want{
		Paused:           c.Paused,
		Warm:             c.Warm,
		IdentifyOnly:     c.IdentifyOnly,
		Endpoint:         c.Endpoint.Fingerprint(),
		Credential:       c.Credential.Fingerprint(a.host.Key),
		AcceptCredential: c.AcceptCredential,
		Shape:            a.wants.Shape, // see choose
		Questions:        a.questions,
		Identity:         c.Identity,
		FailureThreshold: c.Probe.FailureThreshold,
		SuccessThreshold: c.Probe.SuccessThreshold,
		CrashRecord:      c.CrashRecord,
	}
}

func (a *Actor) pace(p state.Probe) {
	pace := probe.Pace{Period: p.Period, Timeout: p.Timeout}
	for _, l := range []*probe.Connection{a.link, a.spare} {
		if l == nil {
			continue
		}
		known := a.machine.ConnectionTo(l.Endpoint)
		switch {
		case known == nil || known.Contact != machine.ContactOK || known.Fails > 0:
			l.SetPace(pace, probe.Urgent)
		case a.isSettled():
			l.SetPace(pace, probe.Settled)
		default:
			l.SetPace(pace, probe.Steady)
		}
	}
}

// isSettled reports whether another probe like the last one, or time, would change nothing.
func (a *Actor) isSettled() bool {
	now := &a.current.Load().Status
	return a.link != nil && a.spare == nil && !a.waits && a.wants.Credential == a.link.Credential() &&
		(now.State == state.StateWarm || now.State == state.StateReady && !slices.ContainsFunc(now.Modules, hasLatecomer))
}

func hasLatecomer(m state.ModuleStatus) bool {
	return slices.ContainsFunc(m.Controllers, func(c state.ControllerStatus) bool { return c.State != state.ModuleRunning })
}

func (a *Actor) perform(act machine.Action, now time.Time) {
	switch act.Kind {
	case machine.Connect:
		a.link = a.connect()
	case machine.ConnectSpare:
		a.spare = a.connect()
	case machine.Swap:
		a.link = a.swap(a.link, act)
	case machine.SwapSpare:
		a.spare = a.swap(a.spare, act)
	case machine.Try:
		a.try(act)
	case machine.EndTrial:
		a.endTrial()
	case machine.Disconnect:
		a.disconnect(a.link)
		a.link = nil
	case machine.DropSpare:
		a.disconnect(a.spare)
		a.spare = nil
	case machine.Adopt:
		a.link, a.spare = a.spare, nil
		a.claimAgain()
	case machine.Start:
		a.start(act, now, (*app.Life).Release)
	case machine.Prepare:
		a.start(act, now, (*app.Life).Hold)
	case machine.Release:
		a.owe(a.steps[act.Epoch])
		a.work.Go(a.epochs[act.Epoch].Release) // it calls the modules' collectors
	case machine.Yield:
		a.yield(act.Epoch)
	case machine.Retire:
		a.retire(act.Epoch)
	case machine.Clean:
		a.clean(act.Epoch)
	case machine.Stop:
		a.stopEpoch(act.Epoch)
	}
}

// rank starts an app with which a process ended after the others, since it may be at fault, and a suspect alone, so
// that the next end shows whether it is.
func (a *Actor) rank() startqueue.Rank {
	switch {
	case a.applied.CrashRecord.Alone:
		return startqueue.RankSuspect
	case a.machine.Failures > 0, a.applied.CrashRecord.Crashes > 0:
		return startqueue.RankFailed
	case a.machine.KnownID() == "":
		return startqueue.RankNew
	}
	return startqueue.RankKnown
}

// claimAgain triggers probes, whose outcomes takeProbe judges again.
func (a *Actor) claimAgain() {
	for _, l := range []*probe.Connection{a.link, a.spare} {
		if l != nil {
			l.ProbeNow()
		}
	}
}

// takeProbe claims the id that a probe found, if the remote is expected to have it. It runs in the actor's goroutine,
// so that no claim outlives the actor.
func (a *Actor) takeProbe(from *probe.Connection, p machine.Probed) {
	if a.link != from && a.spare != from {
		return
	}
	if p.ID != "" && a.machine.Expects(p.ID) {
		p.Holder = a.host.Claim(p.ID, a.name, a.applied.Since)
	}
	p.IsHub = p.ID != "" && a.host.IsHub(p.ID) && !a.applied.AllowHub
	a.learn(p)
	a.dropEarly(from)
}
