// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

type choosing struct {
	questions *machine.Questions // whose results are needed to choose; nil for none
	selection catalog.Selection
	chosen    bool // selection is set, though perhaps outdated

	asked  bool // the operator has changed something since the last choice
	waits  bool // another choice waits until it is believed
	turns  int  // choices in a short time that the remote alone caused
	turned time.Time
}

// Choices that the remote alone causes are forgotten after calm, and at most maxTurns make the next one later, by maxTurnPause at
// most.
const (
	calm         = 10 * time.Minute
	maxTurns     = 10
	maxTurnPause = 5 * time.Minute
)

// believes reports whether a choice that the remote alone causes may take effect: the first at once, the second after a
// pause, each soon after another after twice the pause. Every choice costs an app, and an API server that changes its
// responses all the time must not cause one each time.
func (c *choosing) believes(now time.Time, pause time.Duration) bool {
	if now.Sub(c.turned) > calm {
		c.turns = 0
	}
	if c.turns > 0 && now.Sub(c.turned) < min(pause<<(c.turns-1), maxTurnPause) {
		return false
	}
	c.turns, c.turned = min(c.turns+1, maxTurns), now
	return true
}

// operatorChanges says whether a new configuration may select or configure modules otherwise.
func operatorChanges(before, after *state.Desired) bool {
	return before.Endpoint.Fingerprint() != after.Endpoint.Fingerprint() || before.Client != after.Client ||
		before.Owner.UID != after.Owner.UID ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Modules, after.Modules) ||
		(before.Modules == nil) != (after.Modules == nil) || !slices.Equal(before.Namespaces, after.Namespaces)
}

// take shows the running app at once the fields that restart nothing.
func (a *Actor) take(config state.Desired) {
	limits, err := a.host.Middleware.Limits(a.name, &config)
	if err != nil {
		a.log.Error(err, "A middleware failed; requests have the limits that the other middleware set")
	}
	config.Client = limits
	a.asked = a.asked || operatorChanges(&a.applied, &config)
	before := a.applied
	a.applied = config
	if before.AllowHub != config.AllowHub || before.Identity.Accepted != config.Identity.Accepted || !before.Since.Equal(config.Since) {
		a.claimAgain()
	}
	a.latest.Store(&config)
	a.facts.set(config.Labels)
	if q := a.host.Modules.Questions(&config); !reflect.DeepEqual(q, a.questions) {
		a.questions = q
	}
	a.wants = a.wanted(config)
	if config.Warm { // Another hub works on the remote, and this one does not know which modules it runs there.
		clear(a.owed)
	}
}

// choose waits until the results of the preflight suffice.
func (a *Actor) choose(now time.Time) {
	l := a.machine.ConnectionTo(a.wants.Endpoint)
	if l == nil || l.Contact != machine.ContactOK || !l.Preflighted(a.questions) {
		return // the selection before stays until then
	}
	found, trial := l.Found, &a.machine.Trial
	narrows := trial.Endpoint == l.Endpoint && trial.Narrows(l)
	if narrows { // so that the modules that lack a permission end before the credential is in use
		found = trial.Found
	}
	selected := a.host.Modules.Select(&a.applied, catalog.Facts{Version: l.Version, Preflight: found, Offered: a.host.Offered()})
	shape := selected.Shape(&a.applied)
	a.waits = shape != a.wants.Shape && a.chosen && !a.asked && !narrows && !a.believes(now, a.host.Connections.Pauses.Retry)
	if a.waits {
		return // a later probe calls choose again
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

func (a *Actor) inquire() {
	for _, l := range []*probe.Connection{a.link, a.spare} {
		if l == nil {
			continue
		}
		if known := a.machine.ConnectionTo(l.Endpoint); known != nil && known.Contact == machine.ContactOK {
			l.Preflight(a.questions, func(f *machine.PreflightResult) {
				a.do(func() {
					if a.link == l || a.spare == l {
						a.learn(machine.PreflightDone{Endpoint: l.Endpoint, Result: f})
					}
				})
			})
		}
	}
}

func (a *Actor) preflightNow() {
	a.do(func() {
		if a.link != nil {
			a.link.PreflightNow()
		}
	})
}

func (a *Actor) authorized() state.Condition {
	switch {
	case a.questions == nil || len(a.questions.Rules) == 0:
		return state.Condition{}
	case a.applied.Paused:
		return state.PausedCondition()
	case !a.chosen || a.selection.Authorized == state.Condition{}:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the permissions have not been checked yet"}
	}
	return a.selection.Authorized
}

// moduleInfos are the modules of the app, those that wait for the remote, and those of the next app.
func (a *Actor) moduleInfos() []state.ModuleStatus {
	var infos []state.ModuleStatus
	others := state.ModuleStatus{State: state.ModuleStopped}
	latest := a.machine.Latest()
	switch e := a.epochs[latest.Epoch]; {
	case e != nil && (latest.Runs() || a.machine.Failure != nil):
		infos, others = a.modulesIn(e), state.ModuleStatus{State: state.ModuleStarting, Reason: state.ReasonStarting}
	case a.machine.Failure != nil:
		infos = slices.Clone(a.modules)
	}
	waits := func(m state.ModuleStatus) bool { return indexOfModule(a.selection.Waiting, m.Name) >= 0 }
	infos = append(slices.DeleteFunc(infos, waits), a.selection.Waiting...)
	for _, name := range a.host.Modules.Wanted(&a.applied) {
		if indexOfModule(infos, name) < 0 {
			others.Name = name
			infos = append(infos, others)
		}
	}
	slices.SortFunc(infos, func(a, b state.ModuleStatus) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}

// modulesIn keeps a failed module Failed until it runs, so that one that is started every few seconds does not look
// healthy in between; the others are Stopped with the app. An app that does not run has no controllers.
func (a *Actor) modulesIn(e *app.Life) []state.ModuleStatus {
	infos, runs := e.Modules(), a.machine.Latest().Runs()
	for i := range infos {
		if !runs {
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
		case !runs:
			infos[i] = state.ModuleStatus{Name: m.Name, State: state.ModuleStopped}
		}
	}
	return infos
}

// noteWarm marks them as starting, since they have their objects and wait.
func noteWarm(modules []state.ModuleStatus) {
	for i := range modules {
		m := &modules[i]
		if m.State != state.ModuleRunning {
			continue
		}
		m.State = state.ModuleStarting
		if m.Reason == state.ReasonRunning { // and not Stale
			m.Reason, m.Message = state.ReasonStarting, messageWaits
		}
		for k := range m.Controllers {
			if c := &m.Controllers[k]; c.State == state.ModuleRunning {
				c.State, c.Reason, c.Message = state.ModuleStarting, state.ReasonStarting, messageWaits
			}
		}
	}
}

const messageWaits = "has its objects, and waits until this hub may work on the cluster"

func indexOfModule(infos []state.ModuleStatus, name string) int {
	return slices.IndexFunc(infos, func(m state.ModuleStatus) bool { return m.Name == name })
}
