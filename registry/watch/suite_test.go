// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(6)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is the time that a test waits for an event which should happen within a second or two.
const patience = 2 * time.Minute

// hub is a hub's manager and its registry.
type hub struct {
	ctrl.Manager
	remotes *registry.Registry
}

// newHub returns a hub to which setUp adds controllers. It runs until the test ends.
func newHub(t testing.TB, setUp func(h *hub) error) *hub {
	t.Helper()
	return newHubBehind(t, nil, setUp)
}

// newHubBehind is newHub for a hub whose writes a gate may refuse.
func newHubBehind(t testing.TB, gate func(state.ClusterName) (int64, error), setUp func(h *hub) error) *hub {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: skipNames(),
	})
	must(t, err)
	remotes, err := registry.New(registry.Options{
		Hub: config, HubMapper: mgr.GetRESTMapper(), Scheme: scheme, Policy: policy(), AllowDuplicates: true, AllowHub: true,
		Gate: gate,
	})
	must(t, err)
	h := &hub{Manager: mgr, remotes: remotes}
	must(t, mgr.Add(remotes))
	must(t, setUp(h))
	t.Cleanup(httpClient.CloseIdleConnections)
	testkit.Background(t, mgr.Start)
	return h
}

func policy() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func configFor(t testing.TB, kubeconf []byte) state.Desired {
	t.Helper()
	c, err := kubeconfig.Parse(map[string][]byte{"kubeconfig": kubeconf}, kubeconfig.Options{}, policy())
	must(t, err)
	return state.Desired{Endpoint: c.Endpoint, Credential: c.Credential}
}

// register makes a cluster a remote, without waiting for it.
func (h *hub) register(t testing.TB, name state.ClusterName, c *fleet.Cluster) {
	t.Helper()
	must(t, h.remotes.Ensure(name, configFor(t, c.Kubeconfig())))
}

var must, eventually = testkit.Must, testkit.Eventually

func clientFor(t testing.TB, c *fleet.Cluster) client.WithWatch {
	t.Helper()
	return fleettest.Client(t, c)
}

func skipNames() config.Controller {
	return config.Controller{SkipNameValidation: new(true)}
}
