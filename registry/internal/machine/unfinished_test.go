// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A set of modules that cannot be built leaves the app Ready, and the status has the error.
func TestMachine_ChangeThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	m := newMachine()
	ready(t, m, epochZero)
	change(func(w *Want) { w.Shape = "S2" })(m, epochZero)
	m.Decide(epochZero)
	m.applyEnded(AppEnded{Epoch: m.next.Epoch, Why: Failure{Module: "x", Reason: state.ReasonBuildFailed, Message: "no luck"}}, epochZero)
	m.Decide(epochZero)
	got := m.Status(epochZero)
	if got.State != state.StateReady || got.App.Reason != state.ReasonBuildFailed ||
		!strings.Contains(got.App.Message, "no luck") || !strings.Contains(got.App.Message, "stays in use") {
		t.Errorf("got %s with the app %+v, want Ready, the error, and that the app stays in use", got.State, got.App)
	}
}

// Messages that continue after the failure of a remote are one sentence.
func TestMachine_MessagesAreOneSentence(t *testing.T) {
	t.Parallel()
	_, message := kubeconfig.Classify(context.DeadlineExceeded)
	m := &Machine{Spare: Connection{Contact: contactLost, lost: state.Condition{Message: message}}}
	if got := m.newServer().Message; strings.Contains(got, ".;") || !strings.HasSuffix(got, "; the current server stays in use") {
		t.Errorf("unused new server: got message %q", got)
	}
	m.Failure = &Failure{Message: message}
	if got := m.changing().Message; strings.Contains(got, ".;") || !strings.HasSuffix(got, "; the running app stays in use until then") {
		t.Errorf("app that cannot replace another app: got message %q", got)
	}
}
