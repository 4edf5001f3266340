// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// asRehearsal has this program run the command in its arguments, as a hub with the module writer.
const asRehearsal = "CLUSTERFX_TEST_REHEARSAL"

func TestMain(m *testing.M) {
	if os.Getenv(asRehearsal) != "" {
		os.Exit(app.Main(writer())) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(3)
	os.Exit(hubtest.Main(m))
}

var must, eventually = testkit.Must, testkit.Eventually

// options rehearse the modules with the accounts of the hub.
func options(config *rest.Config, modules ...registry.Module) rehearse.Options {
	o := rehearse.Options{
		Hub: process.Options{Config: config, Modules: modules}, Trust: true, For: 10 * time.Minute, Quiet: time.Second,
		Progress: func(string, ...any) {},
	}
	o.Hub.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return o
}

// run rehearses, and returns the report, which it logs.
func run(t *testing.T, o rehearse.Options) *rehearse.Report {
	t.Helper()
	o.Progress = t.Logf
	report, err := rehearse.Run(t.Context(), o)
	must(t, err)
	t.Logf("the report:\n%s", printed(t, report))
	return report
}

func printed(t *testing.T, report *rehearse.Report) string {
	t.Helper()
	var out bytes.Buffer
	must(t, report.Print(&out))
	return out.String()
}
