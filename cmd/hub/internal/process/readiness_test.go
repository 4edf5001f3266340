// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
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

// A hub is ready while its caches are filled: not before its manager runs, and not when that has ended.
func TestSite_Ready(t *testing.T) {
	t.Parallel()
	s := newSite()
	o := serving.Options{Metrics: serving.Nowhere, Health: fleettest.FreeAddress(t), Checks: s.Checks}
	ports, err := serving.Listen(t.Context(), o)
	must(t, err)
	defer ports.Close()
	expect := func(want int) error {
		response, err := http.DefaultClient.Do(testkit.Request(t, http.MethodGet, "http://"+o.Health+"/readyz"))
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			return fmt.Errorf("the status is %d", response.StatusCode)
		}
		return nil
	}
	must(t, expect(http.StatusInternalServerError))
	end := testkit.Background(t, s.Start)
	eventually(t, func() error { return expect(http.StatusOK) })
	end()
	must(t, expect(http.StatusInternalServerError))
}
