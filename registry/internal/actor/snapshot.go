// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Snapshot is the state of an Actor for other goroutines. It is replaced, never changed.
type Snapshot struct {
	Status state.Status
	// Epoch lends out its clients; nil unless the remote is Ready.
	Epoch *app.Life
	// Changed is closed when this Snapshot has been replaced.
	Changed chan struct{}
}

// Current returns the latest Snapshot.
func (a *Actor) Current() *Snapshot { return a.current.Load() }

// describe adds what only the actor knows.
func (a *Actor) describe(now time.Time) state.Status {
	info := a.describePlain(now)
	info.Redact(a.host.Secrets.Redact)
	return info
}

// plainStatus may have credentials in its messages. Most turns of an actor change neither the status nor the credentials,
// and looking for credentials takes longer than all else in a turn.
type plainStatus struct {
	state.Status
	credentials inUse
}

func (a *Actor) describePlain(now time.Time) state.Status {
	info := a.machine.Status(now)
	info.Name, info.Labels, info.Annotations = a.name, a.applied.Labels, a.applied.Annotations
	info.Server, info.Revision, info.Owner = a.applied.Endpoint.Server, a.applied.Revision, a.applied.Owner
	if a.link != nil {
		info.Server = a.link.Server
		info.CredentialName = a.credentials[a.machine.Connection.Credential].name
	}
	info.Modules, info.Authorized = a.moduleInfos(), a.authorized()
	a.noteUnknownModules(&info)
	isWarm := a.machine.IsWarm()
	if e := a.epochs[a.machine.Latest().Epoch]; e != nil && (isWarm || a.machine.App.Lent()) {
		e.NoteStale(&info, now)
		app.NoteOverdue(&info)
	}
	if isWarm {
		noteWarm(info.Modules)
	}
	return info
}

// noteUnknownModules adds modules of spec.modules that this hub does not have as waiting. The others work, so the
// remote stays in its state.
func (a *Actor) noteUnknownModules(info *state.Status) {
	unknown := a.host.Modules.Unknown(a.applied.Modules)
	if len(unknown) == 0 {
		return
	}
	const message = "this hub has no such module; correct the name, or deploy a hub that has it"
	for _, name := range unknown {
		info.Modules = append(info.Modules, state.ModuleStatus{Name: name, State: state.ModuleWaiting, Reason: state.ReasonWaiting, Message: message})
	}
	slices.SortFunc(info.Modules, func(a, b state.ModuleStatus) int { return strings.Compare(a.Name, b.Name) })
	if info.App.Status == metav1.ConditionTrue {
		info.App = state.Condition{
			Status: metav1.ConditionFalse, Reason: state.ReasonWaiting,
			Message: state.Sanitize("module " + strings.Join(unknown, ", ") + ": " + message),
		}
		info.Summarize()
	}
}

// publish does nothing if nothing has changed.
func (a *Actor) publish(now time.Time, over bool) {
	before, plain := a.current.Load(), plainStatus{a.describePlain(now), a.kept}
	plain.Since = before.Status.Since
	if over {
		plain.State = state.StateStopped
	}
	if plain.State != before.Status.State {
		plain.Since = now
	}
	if reflect.DeepEqual(plain, a.published) {
		return
	}
	a.published = plain
	info := plain.Status
	info.Modules = slices.Clone(info.Modules)
	info.Redact(a.host.Secrets.Redact)
	if reflect.DeepEqual(info, before.Status) {
		return
	}
	after := &Snapshot{Status: info, Changed: make(chan struct{})}
	if info.State == state.StateReady {
		after.Epoch = a.epochs[a.machine.App.Epoch]
	}
	a.current.Store(after)
	close(before.Changed)
	a.host.Changed(before, after)
}
