// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// asHub is the variable that makes the test binary the program hub, for tests of its commands.
const asHub = "CLUSTERFX_TEST_AS_HUB"

func TestMain(m *testing.M) {
	if os.Getenv(asHub) != "" {
		os.Exit(app.Main(inventory.Module)) //nolint:forbidigo // This process is a hub and no test.
	}
	os.Exit(run(m)) //nolint:forbidigo // As main does.
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	clientmetrics.Limit() // As main does.
	ctrlmetrics.RegisterRESTClientMetrics(ctrlmetrics.MetricRequestLatency, ctrlmetrics.MetricDNSResolutionLatency,
		ctrlmetrics.MetricRequestSize, ctrlmetrics.MetricResponseSize, ctrlmetrics.MetricRateLimiterLatency, ctrlmetrics.MetricRequestRetry)
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	fleettest.AtOnce(6)
	return fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while it sends an event that has no receiver: one for each hub that ends
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")))
}

const (
	// patience is the timeout for results that should take a second or two.
	patience = 2 * time.Minute
	// soon is the limit for operations that take milliseconds or a few seconds on an idle machine, and a minute or
	// forever if the code is broken. A removal has half of it; a start beside silent remotes has it on top of its usual
	// time.
	soon = 40 * time.Second
)

// The API servers that the tests share, as fleettest knows them.
const (
	hubCluster = "hub" // of registries without a hub
	one, two   = "one", "two"
)

var names atomic.Int64

func unique(what string) string { return fmt.Sprintf("%s-%d", what, names.Add(1)) }

// policy allows the addresses of the tests: their clusters listen on loopback.
var policy = kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// configFor returns the desired state of a remote with the user of a kubeconfig and a short probe period.
func configFor(t testing.TB, data []byte) state.Desired {
	t.Helper()
	c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": data}, kubeconfig.Options{}, policy)
	must(t, err)
	return state.Desired{
		Endpoint: c.Endpoint, Credential: c.Credential,
		Probe: state.Probe{Period: time.Second, Timeout: time.Second},
	}
}

func admin(t *testing.T, cluster string) state.Desired {
	t.Helper()
	return configFor(t, fleettest.Cluster(t, cluster).Kubeconfig())
}

func set(t *testing.T, p *fault.Proxy, f fault.Fault) {
	t.Helper()
	if err := p.Set(f); err != nil {
		t.Fatalf("set %s: %v", f, err)
	}
}

// newScheme returns the scheme of hubs and remotes.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), hubv1.AddToScheme(s))
}

var must, eventually = testkit.Must, testkit.Eventually

func within(t testing.TB, limit time.Duration, check func() error) time.Duration {
	t.Helper()
	began := time.Now()
	gomega.NewWithT(t).Eventually(check).WithTimeout(limit).WithPolling(5 * time.Millisecond).Should(gomega.Succeed())
	return time.Since(began)
}

// quickly fails the test if a function takes longer than soon. It does not wait for the function to end.
func quickly(t testing.TB, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- f() }()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case err := <-done:
		testkit.NoError(t, err, what)
	case <-limit.C:
		t.Fatalf("%s has not returned after %s", what, time.Since(began))
	}
}

// blocker is a function that does not return before it is released, regardless of its context.
type blocker struct {
	entered, released chan struct{}
	enter, release    func()
}

func newBlocker(t testing.TB) *blocker {
	t.Helper()
	b := &blocker{entered: make(chan struct{}), released: make(chan struct{})}
	b.enter = sync.OnceFunc(func() { close(b.entered) })
	b.release = sync.OnceFunc(func() { close(b.released) })
	t.Cleanup(b.release)
	return b
}

// block returns only after the release.
func (b *blocker) block() {
	b.enter()
	<-b.released
}

// await waits until a caller is blocked.
func (b *blocker) await(t testing.TB) {
	t.Helper()
	select {
	case <-b.entered:
	case <-time.After(patience):
		t.Fatal("no caller was blocked")
	}
}

func newConfigMap(ctx context.Context, direct client.Client, remote registry.ClusterName) (*corev1.ConfigMap, error) {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "for-" + string(remote) + "-", Namespace: metav1.NamespaceDefault,
		Labels: map[string]string{forRemote: string(remote)},
	}}
	return made, direct.Create(ctx, made)
}
