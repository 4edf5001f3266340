// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Histories of a remote that is only identified at the beginning.
func TestMachine_IdentifyOnly(t *testing.T) {
	t.Parallel()
	contact := func(m *Machine, _ time.Time) { m.applyProbe(good("E1"), epochZero) }
	begin := change(func(w *Want) { w.IdentifyOnly, w.Identity.Known = false, "uid-1" })
	rival := change(func(w *Want) { w.IdentifyOnly, w.Identity.Known, w.Identity.Rival = false, "uid-1", "older" })
	remove := change(func(w *Want) { w.Stop, w.RemoveBy = true, epochZero.Add(20*time.Second) })
	for name, steps := range map[string][]step{
		"it starts when the caller knows which cluster it is": {
			{contact, nil, state.StateStarting},
			{begin, []ActionKind{Start}, state.StateStarting},
		},
		"it may start before it is contacted": {
			{begin, nil, state.StatePending},
			{contact, []ActionKind{Start}, state.StateStarting},
		},
		"its removal waits for no app": {
			{contact, nil, state.StateStarting},
			{remove, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"an app that runs continues": {
			{contact, nil, state.StateStarting},
			{begin, []ActionKind{Start}, state.StateStarting},
			{change(func(w *Want) { w.IdentifyOnly = true }), nil, state.StateStarting},
			{func(m *Machine, _ time.Time) { m.applyReady(m.App.Epoch, epochZero) }, nil, state.StateReady},
		},
		"a warm app waits until the caller knows which cluster it is": {
			{contact, nil, state.StateStarting},
			{change(func(w *Want) { w.IdentifyOnly, w.Warm = false, true }), []ActionKind{Prepare}, state.StateStarting},
			{func(m *Machine, _ time.Time) { m.applyReady(m.next.Epoch, epochZero) }, nil, state.StateWarm},
			{change(func(w *Want) { w.IdentifyOnly, w.Warm = true, false }), nil, state.StateStarting},
			{begin, []ActionKind{Release}, state.StateReady},
		},
		"a rival of another hub keeps it from starting, until that is gone": {
			{contact, nil, state.StateStarting},
			{rival, nil, state.StateFailed},
			{change(func(w *Want) { w.Identity.Rival = "" }), []ActionKind{Start}, state.StateStarting},
		},
		"a rival ends its app": {
			{contact, nil, state.StateStarting},
			{begin, []ActionKind{Start}, state.StateStarting},
			{rival, []ActionKind{Stop}, state.StateFailed},
		},
		"a rival of another cluster is none": {
			{contact, nil, state.StateStarting},
			{change(func(w *Want) { w.IdentifyOnly, w.Identity.Rival = false, "older" }), []ActionKind{Start}, state.StateStarting},
		},
		"the removal of a duplicate ends at once": {
			{contact, nil, state.StateStarting},
			{rival, nil, state.StateFailed},
			{remove, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.want.IdentifyOnly = true
			m.Decide(epochZero)
			expectSteps(t, m, steps)
		})
	}
}
