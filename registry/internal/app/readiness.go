// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

type tracker struct {
	changed  func()        // called without the lock after every change
	broken   atomic.Bool   // the app has to end because of a module
	patience time.Duration // for the initial objects of a controller

	mu      sync.Mutex // protects the fields
	modules map[string]*progress
	started bool                   // the manager runs
	synced  chan struct{}          // closed once it runs and every controller has its initial objects
	blocks  map[string]cache.Block // by type, why its objects cannot be listed
}

type progress struct {
	pending     int // controllers that wait for their initial objects
	controllers []*cache.Controller
	failed      *ModuleError
}

func newTracker(modules []string, patience time.Duration, changed func()) *tracker {
	t := &tracker{
		changed:  changed,
		patience: patience,
		modules:  map[string]*progress{},
		synced:   make(chan struct{}),
		blocks:   map[string]cache.Block{},
	}
	for _, name := range modules {
		t.modules[name] = &progress{}
	}
	return t
}

// update closes synced if the change completed the app, and calls changed.
func (t *tracker) update(change func()) {
	t.mu.Lock()
	change()
	complete := t.started
	for _, p := range t.modules {
		complete = complete && p.pending == 0
	}
	if complete {
		select {
		case <-t.synced:
		default:
			close(t.synced)
		}
	}
	t.mu.Unlock()
	t.changed()
}

// controllerAdded returns the record in which the wrappers note the controller's progress.
func (t *tracker) controllerAdded(module, name string) *cache.Controller {
	w := &cache.Controller{Added: time.Now()}
	t.update(func() {
		p := t.modules[module]
		w.Name = uniqueName(name, p.controllers)
		p.pending++
		p.controllers = append(p.controllers, w)
	})
	return w
}

func (t *tracker) controllerSynced(module string, w *cache.Controller) {
	w.MarkSynced()
	t.update(func() { t.modules[module].pending-- })
}

func (t *tracker) managerStarted() { t.update(func() { t.started = true }) }

func (t *tracker) moduleFailed(err *ModuleError) {
	t.update(func() {
		if p := t.modules[err.Module]; p != nil && p.failed == nil {
			p.failed = err
		}
	})
}

// fail is for failures that end the app.
func (t *tracker) fail(err *ModuleError) {
	t.moduleFailed(err)
	t.broken.Store(true)
}

func (t *tracker) isBroken() bool { return t.broken.Load() }

func (t *tracker) controllerRefused(module string, w *cache.Controller) {
	t.update(func() {
		p := t.modules[module]
		p.pending--
		p.controllers = slices.DeleteFunc(p.controllers, func(one *cache.Controller) bool { return one == w })
	})
}

// timedOut names a module that has waited too long, or returns nil if the modules wait only for APIs that the remote
// does not serve, or for kinds with an object that does not fit: another start would not help, and would stop the other
// kinds.
func (t *tracker) timedOut() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.blocks) > 0 && t.allLast() {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.modules)) {
		if t.modules[name].pending > 0 {
			why := unsynced(t.patience, t.modules[name].controllers)
			var problem state.Problem
			if len(t.blocks) > 0 {
				worst := t.worstFor(t.modules[name])
				why, problem = why+": "+worst.Message, worst.Problem
			}
			return &ModuleError{Module: name, Reason: state.ReasonCacheSyncTimedOut, Err: errors.New(why), Problem: problem}
		}
	}
	return nil
}

func unsynced(after time.Duration, controllers []*cache.Controller) string {
	var all []string
	for _, w := range controllers {
		if one := controllerInfo(w, nil); one.State != state.ModuleRunning {
			all = append(all, one.Name+" "+one.Message)
		}
	}
	return "a controller did not get its initial objects within " + after.String() + " (" + strings.Join(all, "; ") + ")"
}

func (t *tracker) allLast() bool {
	for _, b := range t.blocks {
		if b.Cause != cache.Missing && b.Cause != cache.Misfit {
			return false
		}
	}
	return true
}

// Blocked notes why a source has no objects of a type; the zero Block means that it has them.
func (t *tracker) Blocked(what string, why cache.Block) {
	t.mu.Lock()
	same := t.blocks[what] == why
	t.mu.Unlock()
	if same {
		return
	}
	t.update(func() {
		if why == (cache.Block{}) {
			delete(t.blocks, what)
			return
		}
		t.blocks[what] = why
	})
}

// Waiting returns the condition of a starting App that waits for objects which it cannot list; empty otherwise.
func (t *tracker) Waiting() state.Condition {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name, p := range t.modules {
		if p.pending > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(t.blocks) == 0 {
		return state.Condition{}
	}
	slices.Sort(names)
	worst, of := worstOf(t.blocks), "module "+strings.Join(names, ", ")
	if !strings.HasPrefix(worst.Message, of+" ") {
		worst.Message = of + ": " + worst.Message
	}
	return state.Condition{
		Status: metav1.ConditionFalse, Reason: reasonFor(worst), Message: state.Sanitize(worst.Message), Problem: worst.Problem,
	}
}

// worstOf returns what an operator should fix first: a denied request, then another error, then a missing kind.
func worstOf(blocks map[string]cache.Block) cache.Block {
	var worst cache.Block
	for _, what := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[what].Cause > worst.Cause {
			worst = blocks[what]
		}
	}
	return worst
}

func reasonFor(b cache.Block) string {
	if b.Cause == cache.Denied {
		return state.ReasonForbidden
	}
	return state.ReasonWaiting
}

// worstFor prefers kinds that a controller of the module watches.
func (t *tracker) worstFor(p *progress) cache.Block {
	if own := t.blocksOf(p); len(own) > 0 {
		return worstOf(own)
	}
	return worstOf(t.blocks)
}

func (t *tracker) blocksOf(p *progress) map[string]cache.Block {
	own := map[string]cache.Block{}
	for _, w := range p.controllers {
		for _, k := range w.Missing() {
			if b, known := t.blocks[k.Type]; known {
				own[k.Type] = b
			}
		}
	}
	return own
}

// isBlocked is a guess during a start. A controller that is added later does not wait for kinds of other modules.
func (t *tracker) isBlocked(p *progress) bool {
	if t.isStarting(p) {
		return len(t.blocks) > 0
	}
	return len(t.blocksOf(p)) > 0
}

// Modules returns the state of each module, sorted by name.
func (t *tracker) Modules() []state.ModuleStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	var infos []state.ModuleStatus
	for _, name := range slices.Sorted(maps.Keys(t.modules)) {
		infos = append(infos, t.info(name, t.modules[name]))
	}
	return infos
}

func (t *tracker) info(name string, p *progress) state.ModuleStatus {
	one := state.ModuleStatus{Name: name}
	for _, w := range p.controllers {
		one.Controllers = append(one.Controllers, controllerInfo(w, t.blocks))
	}
	switch {
	case p.failed != nil:
		one.State, one.Reason, one.Message = state.ModuleFailed, p.failed.Reason, state.Sanitize(p.failed.Err.Error())
		one.Problem = p.failed.Problem
	case p.pending > 0 && t.isBlocked(p):
		worst := t.worstFor(p)
		one.State, one.Reason, one.Message = state.ModuleWaiting, reasonFor(worst), state.Sanitize(worst.Message)
		one.Problem = worst.Problem
	case t.isStarting(p):
		one.State, one.Reason = state.ModuleStarting, state.ReasonStarting
	case len(t.overdue(p)) > 0:
		one.State, one.Reason = state.ModuleStarting, state.ReasonCacheSyncTimedOut
		one.Message = state.Sanitize(unsynced(t.patience, t.overdue(p)))
	default:
		one.State, one.Reason = state.ModuleRunning, state.ReasonRunning
	}
	return one
}

// A module may add a controller while it runs, such as for a kind that the remote serves later. App and module stay
// ready meanwhile, and the status has the controller as Starting. If that takes longer than a start may take, the
// module counts as Starting, too.

// isStarting needs the lock.
func (t *tracker) isStarting(p *progress) bool {
	select {
	case <-t.synced:
		return false
	default:
		return p.pending > 0 || !t.started
	}
}

// overdue returns controllers that have waited too long for their initial objects. It needs the lock.
func (t *tracker) overdue(p *progress) []*cache.Controller {
	if p.pending == 0 {
		return nil
	}
	var all []*cache.Controller
	for _, w := range p.controllers {
		if _, synced := w.Progress(); !synced && time.Since(w.Added) >= t.patience {
			all = append(all, w)
		}
	}
	return all
}

// NoteOverdue adds the controllers of a running App that wait too long for their initial objects to its status. The
// others and the leases continue, so the remote stays in its state.
func NoteOverdue(info *state.Status) {
	i := slices.IndexFunc(info.Modules, func(m state.ModuleStatus) bool {
		return m.State == state.ModuleStarting && m.Reason == state.ReasonCacheSyncTimedOut
	})
	if i < 0 || info.App.Status != metav1.ConditionTrue {
		return
	}
	info.App = state.Condition{
		Status: metav1.ConditionFalse, Reason: state.ReasonCacheSyncTimedOut,
		Message: state.Sanitize("module " + strconv.Quote(info.Modules[i].Name) + ": " + info.Modules[i].Message),
	}
	info.Summarize()
}

func controllerInfo(w *cache.Controller, blocks map[string]cache.Block) state.ControllerStatus {
	begun, synced := w.Progress()
	if synced {
		return state.ControllerStatus{Name: w.Name, State: state.ModuleRunning}
	}
	one := state.ControllerStatus{Name: w.Name, State: state.ModuleStarting, Reason: state.ReasonStarting}
	missing := w.Missing()
	var kinds []string
	found := map[string]cache.Block{}
	for _, k := range missing {
		kinds = append(kinds, k.Kind)
		if b, known := blocks[k.Type]; known {
			found[k.Type] = b
		}
	}
	slices.Sort(kinds)
	switch worst := worstOf(found); {
	case worst != cache.Block{}:
		one.State, one.Reason, one.Message = state.ModuleWaiting, reasonFor(worst), state.Sanitize(worst.Message)
		one.Problem = worst.Problem
	case len(kinds) > 0:
		one.Message = state.Sanitize("waits for the initial objects of " + strings.Join(slices.Compact(kinds), ", "))
	case begun:
		one.Message = "waits for a source of its own"
	default:
		one.Message = "waits for its turn"
	}
	return one
}

func uniqueName(base string, others []*cache.Controller) string {
	name := base
	for n := 2; slices.ContainsFunc(others, func(w *cache.Controller) bool { return w.Name == name }); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}
