// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/command"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

func TestMain(m *testing.M) {
	if os.Getenv(asHub) != "" {
		os.Exit(mainOfHub()) //nolint:forbidigo // This process is a hub and no test.
	}
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(3)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that is stopped while an event without a receiver is on its way: one per hub that ends
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

// patience is the time that a test waits for a condition that takes a second or two.
const patience = 2 * time.Minute

// hub is the hub's cluster of a test, on which it runs its hubs.
type hub struct {
	client.Client
	t         *testing.T
	cluster   *fleet.Cluster
	processes []*process
}

// newHub returns a clean cluster with the CRD and the credentials namespace.
func newHub(t *testing.T) *hub {
	t.Helper()
	return newHubIn(t, pool.Hub)
}

func newHubIn(t *testing.T, r pool.Role) *hub {
	t.Helper()
	c := fleettest.Borrow(t, r)
	return &hub{Client: clientFor(t, c), t: t, cluster: c}
}

// execute runs a command of a hub with these modules, against the hub's cluster if it needs one.
func (h *hub) execute(modules []registry.Module, args ...string) (code int, stdout, stderr string) {
	h.t.Helper()
	if args[0] != "rbac" {
		args = append(slices.Clone(args), "--kubeconfig="+kubeconfigOf(h.t, h.cluster))
	}
	var out, problems bytes.Buffer
	code = command.Execute(context.WithoutCancel(h.t.Context()), command.Program{
		Args: append([]string{"hub"}, args...), Stdout: &out, Stderr: &problems, Modules: modules,
	})
	return code, out.String(), problems.String()
}

func kubeconfigOf(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	return testkit.File(t, "kubeconfig", c.Kubeconfig())
}

func (h *hub) must(err error) {
	h.t.Helper()
	must(h.t, err)
}

// options returns the options of a hub that is alone in this cluster, with remotes on this machine.
func (h *hub) options(modules ...registry.Module) app.Options {
	o := app.Options{Config: h.cluster.Config(), Modules: modules, Log: testkit.Log(h.t), Alone: true}
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return o
}

type process struct {
	done chan struct{}
	err  error // read it only after done
	stop func() error
}

// run starts a hub, which is stopped when the test ends.
func (h *hub) run(o app.Options) *process {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	p := &process{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = app.Run(ctx, o)
	}()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return p.wait()
	})
	h.processes = append(h.processes, p)
	h.t.Cleanup(h.stop)
	return p
}

func (h *hub) stop() {
	for _, p := range h.processes {
		_ = p.stop()
	}
}

// wait waits for the end of the hub and returns its error.
func (p *process) wait() error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		return errors.New("the hub has not ended")
	}
}

func (h *hub) register(name string, kubeconfig []byte) {
	h.t.Helper()
	h.must(h.Create(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: hubv1.DefaultNamespace,
			Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}))
}

func (h *hub) expectReady(name string, status metav1.ConditionStatus) {
	h.t.Helper()
	eventually(h.t, func() error {
		var cluster hubv1.Cluster
		if err := h.Get(h.t.Context(), client.ObjectKey{Name: name}, &cluster); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
		if ready == nil || ready.Status != status {
			return fmt.Errorf("Ready of %s is %+v", name, ready)
		}
		return nil
	})
}

var must, eventually = testkit.Must, testkit.Eventually

func clientFor(t *testing.T, c *fleet.Cluster) client.Client {
	t.Helper()
	return fleettest.Client(t, c, hubv1.AddToScheme)
}
