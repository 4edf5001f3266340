// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

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
