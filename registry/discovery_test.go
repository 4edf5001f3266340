// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A remote without aggregated discovery is not Ready, with a reason and advice.
func TestRegistry_NoAggregatedDiscovery(t *testing.T) {
	t.Parallel()
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	f.set(func(r *http.Request) bool { return r.URL.Path == "/api" || r.URL.Path == "/apis" }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[],"versions":["v1"]}`)
	})
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
	must(t, r.Ensure("edge", config))
	eventually(t, func() error {
		info, _ := r.Status("edge")
		if info.State == state.StateReady || info.Reason != state.ReasonStartFailed || !strings.Contains(info.Message, "upgrade it, or the proxy in front of it") {
			return fmt.Errorf("got %+v, want StartFailed with advice", info)
		}
		return nil
	})
}
