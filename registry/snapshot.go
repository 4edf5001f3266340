// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

// snapshot is the state of an actor for other goroutines. It is replaced, never changed.
type snapshot struct {
	info    Status
	epoch   *app.Epoch               // lends out its clients; nil unless Ready
	redact  func(text string) string // replaces the credentials in use
	changed chan struct{}            // closed when this snapshot has been replaced
}

// describe returns the Status of the machine, with the fields that only the actor knows.
func (a *actor) describe(now time.Time) Status {
	info := a.machine.Status(now)
	info.Name, info.Labels, info.Annotations = a.name, a.applied.Labels, a.applied.Annotations
	info.Server, info.Revision, info.Owner = a.applied.Endpoint.Server, a.applied.Revision, a.applied.Owner
	if a.link != nil {
		info.Server = a.link.Server()
		info.CredentialName = a.credentials[a.machine.Connection.Credential].name
	}
	info.Modules, info.Authorized = a.moduleInfos(), a.authorized()
	a.noteUnknownModules(&info)
	if e := a.epochs[a.machine.App.Epoch]; e != nil && a.machine.App.Lent() {
		e.NoteStale(&info, now)
	}
	info.Redact(a.redactor())
	return info
}

// redactor returns a function that replaces the credentials in use for the remote, and the credentials of the hub.
func (a *actor) redactor() func(string) string {
	wanted, env := a.applied.Credential, a.registry.environment
	redact := func(text string) string { return env.hubCredential.Redact(text, wanted) }
	for _, l := range []*probe.Connection{a.link, a.spare} {
		if l != nil {
			next := redact
			redact = func(text string) string { return next(l.Transport().Redact(text)) }
		}
	}
	return redact
}

// noteUnknownModules adds each module that spec.modules names and this hub does not have as waiting. The other
// modules work, so the remote stays in its state.
func (a *actor) noteUnknownModules(info *Status) {
	unknown := a.registry.modules.Unknown(a.applied.Modules)
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

// publish replaces the snapshot if anything in it has changed, and publishes an event to the subscribers.
func (a *actor) publish(now time.Time, over bool) {
	before := a.current.Load()
	info := a.describe(now)
	info.Since = before.info.Since
	if over {
		info.State = state.StateStopped
	}
	if info.State != before.info.State {
		info.Since = now
	}
	if reflect.DeepEqual(info, before.info) {
		return
	}
	after := &snapshot{info: info, changed: make(chan struct{}), redact: a.redactor()}
	if info.State == state.StateReady {
		after.epoch = a.epochs[a.machine.App.Epoch]
	}
	a.current.Store(after)
	close(before.changed)
	a.registry.events.publish(Event{Name: a.name, Kind: kindOfChange(before, after), Epoch: info.Epoch})
}

func kindOfChange(before, after *snapshot) EventKind {
	switch {
	case after.info.State == state.StateStopped:
		return EventStopped
	case after.epoch != nil && after.epoch != before.epoch:
		return EventReady
	case after.epoch == nil && before.epoch != nil:
		return EventLost
	}
	return EventChanged
}
