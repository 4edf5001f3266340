// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Hub parts that run, and those that wait until this replica leads, are no trouble.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	got := notRunning([]state.HubPartStatus{
		{Module: "runs", State: state.ModuleRunning, Reason: state.ReasonRunning},
		{Module: "waits", State: state.ModuleStandby, Reason: state.ReasonStandby},
		{Module: "lacks", State: state.ModuleWaiting, Reason: state.ReasonRightsMissing, Message: "the hub lacks: list pods"},
	})
	want := []string{"the hub part of module lacks is Waiting (RightsMissing)"}
	testkit.Equal(t, got, want, "notRunning")
}
