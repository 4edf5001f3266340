// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// failing is a test that may fail. Its parent checks its failures.
type failing struct {
	testing.TB

	mu       sync.Mutex // protects the fields below
	failures []string
	cleanups []func()
}

func (f *failing) Cleanup(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, do)
}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// fails runs a test and returns the failures of the test and its cleanups.
func fails(t testing.TB, test func(*failing)) string {
	t.Helper()
	f := &failing{TB: t}
	inGoroutine(func() { test(f) })
	for _, do := range slices.Backward(f.cleanups) {
		inGoroutine(do)
	}
	return strings.Join(f.failures, "\n---\n")
}

// inGoroutine calls f, which may call runtime.Goexit.
func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// short is the patience of waits that the test expects to fail, on a machine that may be busy.
const short = 3 * time.Second

// A wait that takes too long fails the test, and says what there is instead.
func waitsThatFail(t *testing.T, hub *hubtest.Hub, _ *hubtest.Remote) {
	t.Helper()
	later := configMap("later")
	later.Data = map[string]string{"text": "hello"}
	hub.Create(later)
	hub.SetPatience(short)
	later.ResourceVersion += "0" // This version does not exist yet.
	cases := failingWaits(later)
	said := map[string]chan string{}
	for name, tc := range cases { // All waits run at once, regardless of -parallel.
		result := make(chan string, 1)
		said[name] = result
		go func() {
			result <- fails(t, func(tb *failing) {
				hub := hub.With(tb)
				tc.wait(hub, hub.Remote("edge"))
			})
		}()
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expectSaid(t, <-said[name], tc.want) })
	}
}

type failingWait struct {
	wait func(*hubtest.Hub, *hubtest.Remote)
	want []string
}

func failingWaits(later *corev1.ConfigMap) map[string]failingWait {
	never := func() error { return errors.New("it is not what it should be") }
	return map[string]failingWait{
		"for an object": {
			func(h *hubtest.Hub, _ *hubtest.Remote) { h.WaitFor(configMap("later"), never) },
			[]string{"waited 3s for ConfigMap default/later in the hub", "it is not what it should be", "text: hello"},
		},
		"for an object that is not there": {
			func(_ *hubtest.Hub, r *hubtest.Remote) { r.WaitFor(configMap("none"), never) },
			[]string{"waited 3s for ConfigMap default/none in remote edge", `configmaps "none" not found`, "Cluster edge:"},
		},
		"for the end of an object": {
			func(h *hubtest.Hub, _ *hubtest.Remote) { h.WaitGone(configMap("later")) },
			[]string{"waited 3s for the end of ConfigMap default/later in the hub", "it is there", "text: hello"},
		},
		"for the hub's cache": {
			func(h *hubtest.Hub, _ *hubtest.Remote) { h.WaitCached(later) },
			[]string{"waited 3s for the cached ConfigMap default/later in the hub", "the cache has resourceVersion"},
		},
		"for the app's cache": {
			func(_ *hubtest.Hub, r *hubtest.Remote) { r.WaitCached(later) },
			[]string{"waited 3s for the cached ConfigMap default/later in remote edge", `"later" not found`},
		},
		"for anything": {
			func(h *hubtest.Hub, _ *hubtest.Remote) { h.Eventually(never) },
			[]string{"waited 3s: it is not what it should be", "Ready is True"},
		},
		"for a reason": {
			func(_ *hubtest.Hub, r *hubtest.Remote) { r.WaitNotReady(hubv1.ReasonUnauthorized) },
			[]string{"not Ready because of Unauthorized", "Ready is True", "Reachable is True, ProbeSucceeded"},
		},
		"for a module": {
			func(_ *hubtest.Hub, r *hubtest.Remote) { r.WaitModule("nothing", hubv1.ModuleRunning) },
			[]string{"module nothing to be Running", "it is not, in the status of edge"},
		},
		"for a condition": {
			func(_ *hubtest.Hub, r *hubtest.Remote) {
				r.WaitCondition(hubv1.ConditionReachable, metav1.ConditionTrue, "Another")
			},
			[]string{"Reachable=True/Another", "Reachable is True, ProbeSucceeded"},
		},
	}
}

// expectSaid checks the failures of a test.
func expectSaid(t testing.TB, said string, want []string) {
	t.Helper()
	for _, one := range want {
		testkit.Has(t, said, one, "failures")
	}
	if strings.Contains(said, "still running") {
		t.Errorf("failing test leaks goroutines:\n%s", said)
	}
}

func TestNew_Fails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		test func(*failing)
		want []string
	}{
		"a hub that does not start": {
			func(tb *failing) { hubtest.New(tb, hubtest.Modules(echo(), echo())) },
			[]string{"start the hub", `module "echo" is in the hub twice`},
		},
		"a hub that ends": {
			func(tb *failing) {
				hub := hubtest.New(tb, hubtest.Modules(quitter()))
				hub.Eventually(func() error { return errors.New("never") })
			},
			[]string{"hub", "fx.Shutdowner"},
		},
		"no CRDs where there should be some": {
			func(tb *failing) { hubtest.New(tb, hubtest.HubCRDs(fstest.MapFS{})) },
			[]string{"there is no CustomResourceDefinition in it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectSaid(t, fails(t, tc.test), tc.want)
		})
	}
}

// On a busy machine the app may start later than the patience allows: then the test retries with more.
func TestNew_ModuleThatDoesNotStart(t *testing.T) {
	fleettest.Slow(t, "./hubtest TestNew_Fails")
	t.Parallel()
	const failed = "module broken: Failed"
	said := ""
	for patience := short; !strings.Contains(said, failed) && patience < 2*time.Minute; patience *= 3 {
		said = fails(t, func(tb *failing) {
			hubtest.New(tb, hubtest.Patience(patience), hubtest.Remotes("edge"), hubtest.Modules(broken()))
		})
	}
	expectSaid(t, said, []string{"a Ready Cluster", "the module is broken", failed})
}

// broken is a module that fails to start.
func broken() registry.Module {
	return registry.NewModule("broken", registry.ModuleOptions{
		Remote: fx.Invoke(func() error { return errors.New("the module is broken") }),
	})
}

// quitter is a module that shuts the hub down as soon as the hub runs.
func quitter() registry.Module {
	return registry.NewModule("quitter", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(l fx.Lifecycle, s fx.Shutdowner) {
			l.Append(fx.StartHook(func(context.Context) error { return s.Shutdown() }))
		}),
	})
}

func TestMissingBinaries(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	said := fails(t, func(tb *failing) { hubtest.New(tb) })
	expectSaid(t, said, []string{"holds no kube-apiserver", "make controlplane"})
}
