// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// actor owns one remote. Its goroutine is the only one that changes what is known of the remote
// and what runs for it: it takes desired states and facts from its inbox, lets the machine
// decide, and starts what was decided. It never waits for anything but its inbox and the clock,
// so that a new desired state is acted upon at once whatever the remote does.
type actor struct {
	registry *Registry
	name     ClusterName
	log      logr.Logger

	mu     sync.Mutex // protects the inbox, the fields up to overtaken; held for no longer than an append
	config Config
	stop   bool
	facts  []func(*machine)
	// overtaken is closed when a posted stop is taken back; nil while none is posted.
	overtaken chan struct{}

	wake    chan struct{} // capacity 1: the inbox has something
	current atomic.Pointer[snapshot]
	done    chan struct{} // closed when the actor has ended

	// Everything below belongs to the actor's goroutine.
	machine machine
	applied Config
	link    *link
	epoch   *epoch
	modules []ModuleInfo   // how the modules of the last epoch ended
	work    sync.WaitGroup // goroutines that end soon after what they wait for
}

func newActor(r *Registry, name ClusterName, config Config) *actor {
	a := &actor{
		registry: r,
		name:     name,
		log:      r.log.WithValues("cluster", string(name)),
		config:   config,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	a.machine.jitter = rand.Float64
	a.machine.nextEpoch = func() int64 { return r.epochs.Add(1) }
	info := a.describe()
	info.Since = time.Now()
	a.current.Store(&snapshot{info: info, changed: make(chan struct{})})
	return a
}

// want posts a desired state. The latest one wins.
func (a *actor) want(config Config) {
	a.mu.Lock()
	a.config, a.stop = config, false
	if a.overtaken != nil {
		close(a.overtaken)
		a.overtaken = nil
	}
	a.mu.Unlock()
	a.signal()
}

// wantStop posts that the remote is not wanted any more. The channel that it returns is closed if
// somebody wants it again before it was forgotten.
func (a *actor) wantStop() (overtaken <-chan struct{}) {
	a.mu.Lock()
	a.stop = true
	if a.overtaken == nil {
		a.overtaken = make(chan struct{})
	}
	overtaken = a.overtaken
	a.mu.Unlock()
	a.signal()
	return overtaken
}

func (a *actor) wantsStop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stop
}

// post adds a fact to the inbox.
func (a *actor) post(fact func(*machine)) {
	a.mu.Lock()
	a.facts = append(a.facts, fact)
	a.mu.Unlock()
	a.signal()
}

func (a *actor) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run is the actor's goroutine. It returns when the remote has been stopped and forgotten.
func (a *actor) run() {
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
		if at := a.machine.wakeAt(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
	}
}

// step empties the inbox and acts upon it. It reports whether the actor's work is done.
func (a *actor) step(now time.Time) (over bool) {
	a.mu.Lock()
	config, stop, facts := a.config, a.stop, a.facts
	a.facts = nil
	a.mu.Unlock()

	a.applied = config
	a.machine.applyWant(a.wanted(config, stop))
	for _, fact := range facts {
		fact(&a.machine)
	}
	actions := a.machine.decide(now)
	if a.link != nil {
		a.link.settings.Store(&config.Probe)
	}
	for _, act := range actions {
		if act.kind == actForget {
			over = true
			continue
		}
		a.perform(act)
	}
	if over && a.registry.forget(a, func() { a.publish(now, true) }) {
		return true
	}
	a.publish(now, false)
	return false
}

func (a *actor) wanted(c Config, stop bool) want {
	return want{
		stop:             stop,
		paused:           c.Paused,
		endpoint:         c.Endpoint.Fingerprint(),
		credential:       c.Credential.Fingerprint(a.registry.key),
		shape:            c.shape(a.registry.modules),
		identity:         c.Identity,
		failureThreshold: c.Probe.FailureThreshold,
		successThreshold: c.Probe.SuccessThreshold,
	}
}

func (a *actor) perform(act action) {
	switch act.kind {
	case actConnect:
		a.connect()
	case actSwap:
		a.swap()
	case actDisconnect:
		if gone := a.link; gone != nil {
			a.link = nil
			gone.cancel()
			a.work.Go(gone.close)
		}
	case actStart:
		a.start(act.epoch)
	case actStop:
		a.stopEpoch(act.epoch)
	}
}

func (a *actor) connect() {
	connection := kubeconfig.Connection{Endpoint: a.applied.Endpoint, Credential: a.applied.Credential}
	transport, err := kubeconfig.NewTransport(connection, a.registry.policy)
	if err != nil {
		a.reject(err)
		return
	}
	l := &link{
		transport: transport,
		endpoint:  a.applied.Endpoint.Fingerprint(),
		server:    a.applied.Endpoint.Server,
	}
	l.report = func(p probeFact) { a.post(func(*machine) { a.takeProbe(l, p) }) }
	l.credential.Store(a.credential())
	a.link = l
	l.open(a.registry.root, a.applied.Probe)
}

func (a *actor) credential() *string {
	fingerprint := a.applied.Credential.Fingerprint(a.registry.key)
	return &fingerprint
}

// takeProbe takes note of a probe, and claims the id that it found if the remote is the one that is
// meant. It runs in the actor's goroutine, so that no claim outlives the actor.
func (a *actor) takeProbe(from *link, p probeFact) {
	if a.link != from {
		return
	}
	if p.id != "" && a.machine.expects(p.id) {
		p.holder = a.registry.claim(p.id, a.name)
	}
	p.isHub = p.id != "" && a.registry.isHub(p.id)
	a.machine.applyProbe(p)
}

// swap puts a new credential under the running app.
func (a *actor) swap() {
	if a.link == nil {
		a.connect()
		return
	}
	if err := a.link.transport.Swap(a.applied.Credential); err != nil {
		a.log.Error(err, "The new credential cannot be used; the last good one stays in use")
		return
	}
	a.link.credential.Store(a.credential())
	a.log.Info("The credential was replaced")
	a.link.probeNow()
}

// reject treats credentials that no connection can be made of like a probe that they failed.
func (a *actor) reject(err error) {
	reason, message := kubeconfig.Classify(err)
	fact := probeFact{
		endpoint:   a.applied.Endpoint.Fingerprint(),
		credential: *a.credential(),
		failed:     Facet{Status: metav1.ConditionFalse, Reason: reason, Message: message},
		fatal:      true,
	}
	a.post(func(m *machine) { m.applyProbe(fact) })
}

func (a *actor) start(number int64) {
	e := &epoch{
		name: a.name, number: number, config: a.applied, base: a.link.transport, info: a.describe(),
		log: a.log.WithValues("epoch", number),
	}
	newEpoch(a.registry.environment, e, func() {
		a.post(func(m *machine) { m.applyWaiting(number, e.tracker.waiting()) })
	})
	a.epoch = e
	go e.run(
		func() { a.post(func(m *machine) { m.applyReady(number, time.Now()) }) },
		func(err error) {
			failed := describe(err)
			a.logFailure(failed, err)
			a.post(func(m *machine) {
				m.applyEnded(number, failed, time.Now())
				if failed.remote && a.link != nil {
					a.link.probeNow()
				}
			})
		},
	)
}

func (a *actor) logFailure(failed failure, err error) {
	log := a.log
	var panicked *panicError
	if errors.As(err, &panicked) {
		log = log.WithValues("stack", string(panicked.stack))
	}
	log.Info("The app failed and will be started again",
		"module", failed.module, "reason", failed.reason, "error", failed.message)
}

// stopEpoch fences the epoch now, and reports it gone when it has ended or, as a zombie, when it
// has had its time.
func (a *actor) stopEpoch(number int64) {
	e := a.epoch
	e.stop()
	a.work.Go(func() {
		patience := time.NewTimer(a.registry.limits.StopTimeout)
		defer patience.Stop()
		select {
		case <-e.done:
		case <-patience.C:
			a.leaveBehind(e)
		}
		a.post(func(m *machine) {
			m.applyGone(number)
			a.release(e)
		})
	})
}

// release lets go of an epoch, and with it of its caches.
func (a *actor) release(e *epoch) {
	if a.epoch == e {
		a.modules, a.epoch = e.tracker.list(), nil
	}
}

// leaveBehind counts an epoch that does not end as a zombie until it does.
func (a *actor) leaveBehind(e *epoch) {
	a.log.Info("An app did not end in time and is left behind; it is fenced and can reach nothing", "epoch", e.number)
	a.registry.zombies.Add(1)
	a.post(func(m *machine) { m.zombies++ })
	go func() {
		<-e.done
		a.registry.zombies.Add(-1)
		a.post(func(m *machine) { m.zombies-- })
	}()
}
