// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

// choosing is what an actor knows of the modules of its remote. It belongs to the actor's goroutine.
type choosing struct {
	questions *preflight.Questions // that have to be answered to choose; nil for none
	selection selection
	chosen    bool // selection is one, though perhaps of before

	asked  bool // the operator has changed something since the last choice
	turns  int  // choices in a short time that came of the remote alone
	turned time.Time
}

// believes reports whether a choice that comes of the remote alone may take effect. The first does at once, and
// each one soon after another has to wait for twice as long: every one costs an app, whose caches live on for
// leaseGrace. An API server that says something else to every question must not have one each time.
func (c *choosing) believes(now time.Time) bool {
	if now.Sub(c.turned) > probe.PreflightCalm {
		c.turns = 0
	}
	if c.turns > 0 && now.Sub(c.turned) < min(probe.PreflightRetry<<(c.turns-1), probe.PreflightMaxPause) {
		return false
	}
	c.turns, c.turned = min(c.turns+1, probe.MaxChanges), now
	return true
}

// operatorChanges reports whether a new configuration may select other modules, or configure them otherwise.
func operatorChanges(before, after *state.Desired) bool {
	return before.Endpoint.Fingerprint() != after.Endpoint.Fingerprint() || before.Client != after.Client ||
		before.Owner.UID != after.Owner.UID ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Modules, after.Modules) ||
		(before.Modules == nil) != (after.Modules == nil) || !slices.Equal(before.Namespaces, after.Namespaces)
}

// take notes a new desired state: what restarts nothing is seen at once by what runs, and what has to be
// known of the remote may be something else than before.
func (a *actor) take(config state.Desired) {
	bounds, err := a.registry.boundsFor(a.name, &config)
	if err != nil {
		a.log.Error(err, "A middleware failed; requests have the bounds that the others gave them")
	}
	config.Client = bounds
	a.asked = a.asked || operatorChanges(&a.applied, &config)
	a.applied = config
	a.latest.Store(&config)
	if q := questionsFor(a.registry.modules, &config); !reflect.DeepEqual(q, a.questions) {
		a.questions = q
	}
	a.wants = a.wanted(config)
}

// choose selects the modules anew if enough is known, and tells the machine.
func (a *actor) choose(now time.Time) {
	l := a.machine.ConnectionTo(a.wants.Endpoint)
	if l == nil || l.Contact != machine.ContactOK || !l.Preflighted(a.questions) {
		return // what was chosen before holds until then
	}
	found, trial := l.Found, &a.machine.Trial
	narrows := trial.Endpoint == l.Endpoint && trial.Narrows(l)
	if narrows { // so that the modules which lack a permission end before the credential is in use
		found = trial.Found
	}
	selected := choose(a.registry.modules, &a.applied, remoteFacts{l.Version, found, a.registry.offered()})
	shape := selected.shape(&a.applied)
	if shape != a.wants.Shape && a.chosen && !a.asked && !narrows && !a.believes(now) {
		return // a later probe brings it here again
	}
	a.selection, a.chosen, trial.Chosen = selected, true, narrows
	switch {
	case shape == a.wants.Shape:
	case a.asked:
		a.wants.Shape = shape
		a.machine.ApplyWant(a.wants)
	default: // The remote must not be able to cut the backoff of a failed app short.
		a.wants.Shape = shape
		a.machine.SetShape(shape)
	}
	a.asked = false
}

// inquire lets the connections ask what has to be known.
func (a *actor) inquire() {
	for _, l := range []*probe.Connection{a.link, a.spare} {
		if l == nil {
			continue
		}
		if known := a.machine.ConnectionTo(l.Endpoint()); known != nil && known.Contact == machine.ContactOK {
			l.Preflight(a.questions, func(f *preflight.Result) {
				a.do(func() {
					if a.link == l || a.spare == l {
						a.learn(machine.PreflightDone{Endpoint: l.Endpoint(), Result: f})
					}
				})
			})
		}
	}
}

// surveyNow asks for a survey of the connection in use.
func (a *actor) surveyNow() {
	a.do(func() {
		if a.link != nil {
			a.link.PreflightNow()
		}
	})
}

// authorized says whether the credentials have the rights that the modules declare.
func (a *actor) authorized() state.Condition {
	switch {
	case a.questions == nil || len(a.questions.Rules) == 0:
		return state.Condition{}
	case a.applied.Paused:
		return state.PausedCondition()
	case !a.chosen || a.selection.authorized == state.Condition{}:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the remote has not been asked yet"}
	}
	return a.selection.authorized
}

// moduleInfos returns the state of every module that is wanted, sorted by name: those of the app, those that
// wait for the remote, and those that the next app will have.
func (a *actor) moduleInfos() []state.ModuleStatus {
	var infos []state.ModuleStatus
	others := state.ModuleStatus{State: state.ModuleStopped}
	switch e := a.epochs[a.machine.App.Epoch]; {
	case e != nil && (a.machine.App.Runs() || a.machine.Failure != nil):
		infos, others = a.modulesIn(e), state.ModuleStatus{State: state.ModuleStarting, Reason: state.ReasonStarting}
	case a.machine.Failure != nil:
		infos = slices.Clone(a.modules)
	}
	waits := func(m state.ModuleStatus) bool { return indexOfModule(a.selection.waiting, m.Name) >= 0 }
	infos = append(slices.DeleteFunc(infos, waits), a.selection.waiting...)
	for _, m := range a.registry.modules {
		if m.wants(&a.applied) && indexOfModule(infos, m.name) < 0 {
			others.Name = m.name
			infos = append(infos, others)
		}
	}
	slices.SortFunc(infos, func(a, b state.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}

// modulesIn returns the states of the modules of an app. After a failure, one that has failed stays Failed with the
// reason until it runs, so that what is tried every few seconds does not look well in between, and the others are
// Stopped when the app is. An app that does not run has no controllers.
func (a *actor) modulesIn(e *epoch) []state.ModuleStatus {
	infos := e.tracker.list()
	for i := range infos {
		if !a.machine.App.Runs() {
			infos[i].Controllers = nil
		}
	}
	if a.machine.Failure == nil {
		return infos
	}
	for i, m := range infos {
		if m.State != state.ModuleStarting && m.State != state.ModuleRunning {
			continue
		}
		last := indexOfModule(a.modules, m.Name)
		switch {
		case m.State == state.ModuleStarting && last >= 0 && a.modules[last].State == state.ModuleFailed:
			infos[i] = a.modules[last]
			infos[i].Controllers = m.Controllers
		case !a.machine.App.Runs():
			infos[i] = state.ModuleStatus{Name: m.Name, State: state.ModuleStopped}
		}
	}
	return infos
}

func indexOfModule(infos []state.ModuleStatus, name string) int {
	return slices.IndexFunc(infos, func(m state.ModuleStatus) bool { return m.Name == name })
}
