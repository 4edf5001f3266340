// SPDX-License-Identifier: Apache-2.0

// Package tests holds only tests: those of the small packages beside it that use their exported functions alone. One
// program of all of them is linked once, and they share the API servers.
package tests

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/command"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
)

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		printPace()
		os.Exit(0) //nolint:forbidigo // This process is no test.
	}
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(3)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while an event without a receiver is on its way (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

// patience is the time that a test waits for a condition that takes a second or two.
const patience = 2 * time.Minute

var must, eventually = testkit.Must, testkit.Eventually

func clientFor(t *testing.T, c *fleet.Cluster) client.Client {
	t.Helper()
	return fleettest.Client(t, c, hubv1.AddToScheme)
}

// installed returns a client for a cluster in which the hub's manifests are applied.
func installed(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	cluster := fleettest.Cluster(t, "installed")
	c := clientFor(t, cluster)
	must(t, install.Apply(t.Context(), c, objects(t, install.Options{}), install.ApplyOptions{}))
	return c, cluster.Config()
}

// program runs a command of the stock hub and returns its output.
func program(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	p := command.Program{Args: append([]string{"hub"}, args...), Stdout: &out, Stderr: &problems, Modules: modules.All(), Stock: true}
	if code := command.Execute(t.Context(), p); code != 0 {
		t.Fatalf("hub %s: exit status %d\n%s", strings.Join(args, " "), code, problems.String())
	}
	return out.String()
}

// noApps is the runner of shards without Clusters.
type noApps struct{}

func (noApps) Warm(context.Context, int) error           { return nil }
func (noApps) Start(context.Context, int, int64, string) {}
func (noApps) Drain(context.Context, int) error          { return nil }

// startReplica runs a replica until the test ends, or the function that it returns is called.
func startReplica(t *testing.T, cluster *fleet.Cluster, o replica.Options) (end func()) {
	t.Helper()
	o.Config, o.Runner, o.LeaveTimeout = cluster.Config(), noApps{}, patience
	o.Timing = shards.Timing{Duration: 20 * time.Second, Deadline: 15 * time.Second, Retry: 300 * time.Millisecond}
	r, err := replica.New(o)
	must(t, err)
	return testkit.Background(t, r.Run)
}
