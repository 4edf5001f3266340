// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Profiles are served on loopback only.
func TestPorts_Debug(t *testing.T) {
	t.Parallel()
	options := serving.Options{
		Metrics: serving.Nowhere, Health: fleettest.FreeAddress(t), Checks: serving.NewChecks(prometheus.NewRegistry()),
	}
	for _, elsewhere := range []string{":6060", "0.0.0.0:6060", "10.0.0.1:6060", "[::]:6060", "example.com:6060", "6060"} {
		options.Debug = elsewhere
		ports, err := serving.Listen(t.Context(), options)
		if err == nil || !strings.Contains(err.Error(), "serve profiles") {
			t.Errorf("profiles are served on %s: %v", elsewhere, err)
		}
		if err == nil {
			ports.Close()
		}
	}
	address := fleettest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	options.Debug = "localhost:" + port
	ports, err := serving.Listen(t.Context(), options)
	must(t, err)
	defer ports.Close()
	expectPage(t, "http://"+address+"/debug/pprof/symbol", http.StatusOK, "num_symbols: 1")
}
