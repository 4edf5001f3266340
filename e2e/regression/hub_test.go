// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
)

// hub is a whole hub from the view of one test. It runs as cmd/hub runs it, but in this process.
type hub struct {
	client.Client // of an administrator, without a cache
	t             *testing.T
	cluster       *fleet.Cluster
	options       app.Options
	scripts       *scripts
	metrics       *prometheus.Registry
	process       *process
	registry      *registry.Registry // of the running process
}

// process is a running hub.
type process struct {
	done chan struct{}
	err  error // read it only after done
	end  context.CancelFunc
}

// takeHub returns a clean API server for a hub, which no other test uses.
func takeHub(t *testing.T) *fleet.Cluster {
	t.Helper()
	c, err := fleettest.Lender().Take(t.Context(), pool.Hub)
	must(t, err)
	t.Cleanup(func() { must(t, fleettest.Lender().GiveBack(context.WithoutCancel(t.Context()), c)) })
	return c
}

// newHub returns a hub for one test, on an API server that no other test uses, and does not start it.
func newHub(t *testing.T, change func(*app.Options)) *hub {
	t.Helper()
	h := &hub{t: t, cluster: takeHub(t), scripts: &scripts{}, metrics: prometheus.NewRegistry()}
	h.Client = fleettest.Client(t, h.cluster, hubv1.AddToScheme)
	h.options = app.Options{
		Config: h.cluster.Config(), Modules: []registry.Module{marker(), h.scripts.module(), inventory.Module}, Alone: true,
	}
	h.options.Registry.Policy, h.options.Registry.AllowDuplicates, h.options.Registry.Metrics = policy, true, h.metrics
	if change != nil {
		change(&h.options)
	}
	t.Cleanup(h.stop)
	return h
}

// start starts a process, and returns when the process has a registry.
func (h *hub) start() {
	h.t.Helper()
	built := make(chan *registry.Registry, 1)
	o := h.options
	o.Modules = append(o.Modules[:len(o.Modules):len(o.Modules)],
		registry.NewModule("insight", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func(r *registry.Registry) { built <- r })}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	p := &process{done: make(chan struct{}), end: cancel}
	go func() {
		defer close(p.done)
		p.err = app.Run(ctx, o)
	}()
	h.process = p
	select {
	case h.registry = <-built:
	case <-p.done:
		h.t.Fatalf("the hub ended: %v", p.err)
	case <-time.After(patience):
		h.t.Fatal("the hub has not begun")
	}
}

// stop ends the process, if it is running, as SIGTERM does.
func (h *hub) stop() {
	h.t.Helper()
	if h.process == nil {
		return
	}
	h.process.end()
	select {
	case <-h.process.done:
		if h.process.err != nil {
			h.t.Errorf("the hub ended with %v, want no error", h.process.err)
		}
	case <-time.After(patience):
		h.t.Error("the hub has not ended")
	}
}

// expectRuns fails the test if the hub has ended.
func (h *hub) expectRuns() {
	h.t.Helper()
	select {
	case <-h.process.done:
		h.t.Fatalf("the hub ended: %v", h.process.err)
	default:
	}
}

func (h *hub) register(name string, kubeconfig []byte, change func(*hubv1.Cluster)) {
	h.t.Helper()
	h.putSecret(name, map[string][]byte{"kubeconfig": kubeconfig})
	h.create(name, change)
}

func (h *hub) putSecret(name string, data map[string][]byte) {
	h.t.Helper()
	must(h.t, h.Create(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace}, Data: data,
	}))
}

func (h *hub) create(name string, change func(*hubv1.Cluster)) {
	h.t.Helper()
	c := newCluster(name)
	if change != nil {
		change(c)
	}
	must(h.t, h.Create(h.t.Context(), c))
}

func newCluster(name string) *hubv1.Cluster {
	return &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name},
			Probe:               hubv1.ProbeSpec{PeriodSeconds: 1, TimeoutSeconds: 1},
		},
	}
}

// remove deletes a Cluster without waiting.
func (h *hub) remove(name string) {
	h.t.Helper()
	must(h.t, h.Delete(h.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func (h *hub) expectGone(name string) time.Duration {
	h.t.Helper()
	return within(h.t, patience, func() error {
		var c hubv1.Cluster
		if err := h.Get(h.t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("%s still exists: finalizers %v%s", name, c.Finalizers, summary(&c))
	})
}

func (h *hub) get(name string) *hubv1.Cluster {
	h.t.Helper()
	c := &hubv1.Cluster{}
	must(h.t, h.Get(h.t.Context(), client.ObjectKey{Name: name}, c))
	return c
}

func (h *hub) expect(name, kind string, status metav1.ConditionStatus, reason string) *hubv1.Cluster {
	h.t.Helper()
	var c *hubv1.Cluster
	eventually(h.t, func() error {
		c = h.get(name)
		found := meta.FindStatusCondition(c.Status.Conditions, kind)
		if found == nil || found.Status != status || found.Reason != reason {
			return fmt.Errorf("%s: want %s=%s/%s, got%s", name, kind, status, reason, summary(c))
		}
		return nil
	})
	return c
}

func (h *hub) expectReady(name string) *hubv1.Cluster {
	h.t.Helper()
	return h.expect(name, hubv1.ConditionReady, metav1.ConditionTrue, hubv1.ReasonReady)
}

func (h *hub) expectUnreachable(name, reason string) {
	h.t.Helper()
	h.expect(name, hubv1.ConditionReachable, metav1.ConditionFalse, reason)
}

// epochOf returns the number of the running app of a remote.
func (h *hub) epochOf(name string) int64 {
	h.t.Helper()
	return epochOf(h.t, h.registry, registry.ClusterName(name))
}

func summary(c *hubv1.Cluster) string {
	text := fmt.Sprintf("\n  generation %d, observed %d", c.Generation, c.Status.ObservedGeneration)
	for _, one := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s/%s: %s", one.Type, one.Status, one.Reason, one.Message)
	}
	return text
}

// change updates a Cluster as a user would.
func (h *hub) change(name string, f func(*hubv1.Cluster)) {
	h.t.Helper()
	eventually(h.t, func() error {
		c := h.get(name)
		f(c)
		return h.Update(h.t.Context(), c)
	})
}
