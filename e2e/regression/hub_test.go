// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
)

// prepare prepares a hub's API server, as an administrator does.
func prepare(ctx context.Context, c *fleet.Cluster) error {
	_, err := envtest.InstallCRDs(c.Config(), envtest.CRDInstallOptions{
		Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true, MaxTime: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	direct, closeIdle, err := newClient(c.Config())
	if err != nil {
		return err
	}
	defer closeIdle()
	return direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}})
}

// hub is a whole hub from the view of one test. It runs as cmd/hub runs it, but in this process.
type hub struct {
	client.Client // of an administrator, without a cache
	t             *testing.T
	cluster       *fleet.Cluster
	options       app.Options
	scripts       *scripts
	heard         *listener
	metrics       *prometheus.Registry
	process       *process
	registry      *registry.Registry // of the running process
	registered    []string           // Clusters of the test
}

// process is a running hub.
type process struct {
	done chan struct{}
	err  error // read it only after done
	stop func() error
}

// newOptions returns the options of a hub with the modules of these tests.
func (h *hub) newOptions() app.Options {
	o := app.Options{
		Config:  h.cluster.Config(),
		Modules: []registry.Module{marker(), h.scripts.module(), h.heard.module(), inventory.Module},
	}
	o.Registry.Policy, o.Registry.AllowDuplicates, o.Registry.Metrics = policy, true, h.metrics
	return o
}

func newHubOf(c *fleet.Cluster) *hub {
	h := &hub{cluster: c, scripts: &scripts{}, heard: newListener(), metrics: prometheus.NewRegistry()}
	h.options = h.newOptions()
	return h
}

// sharedHub returns the hub that most tests share, from the view of t.
func sharedHub(t *testing.T) *hub {
	t.Helper()
	c := clusterOf(t, hubCluster)
	world.mu.Lock()
	defer world.mu.Unlock()
	if world.shared == nil {
		h := newHubOf(c)
		must(t, h.begin(context.WithoutCancel(t.Context())))
		world.shared = h
	}
	h := *world.shared // with its process, without state of other tests
	h.t, h.Client = t, clientFor(t, c)
	t.Cleanup(h.tidy)
	return &h
}

// turn is held by the test that runs hubs on turnCluster.
var turn sync.Mutex

// newHub returns a hub for one test, on an API server that no other hub uses, and does not start it. It waits until
// that API server is free.
func newHub(t *testing.T, change func(*app.Options)) *hub {
	t.Helper()
	c := clusterOf(t, turnCluster)
	turn.Lock()
	t.Cleanup(turn.Unlock)
	h := newHubOf(c)
	h.t, h.Client = t, clientFor(t, c)
	if change != nil {
		change(&h.options)
	}
	t.Cleanup(h.stop)
	t.Cleanup(h.tidy)
	return h
}

// start starts a process of the hub.
func (h *hub) start() {
	h.t.Helper()
	must(h.t, h.begin(context.WithoutCancel(h.t.Context())))
}

// begin starts a process, and returns when the process has a registry.
func (h *hub) begin(ctx context.Context) error {
	built := make(chan *registry.Registry, 1)
	o := h.options
	o.Modules = append(o.Modules[:len(o.Modules):len(o.Modules)],
		registry.NewModule("insight", registry.ModuleOptions{Hub: fx.Invoke(func(r *registry.Registry) { built <- r })}))
	p := runHub(ctx, o)
	select {
	case h.registry = <-built:
		h.process = p
		return nil
	case <-p.done:
		return fmt.Errorf("the hub ended: %w", p.err)
	case <-time.After(patience):
		return errors.Join(errors.New("the hub has not begun"), p.stop())
	}
}

// runHub starts a process.
func runHub(ctx context.Context, o app.Options) *process {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = app.Run(ctx, o)
	}()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return p.wait()
	})
	return p
}

// wait waits until the process has ended, and returns its error.
func (p *process) wait() error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		return errors.New("the hub has not ended")
	}
}

// runs reports whether the process is running.
func (p *process) runs() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop ends the process, if it is running, as SIGTERM does.
func (h *hub) stop() {
	h.t.Helper()
	if h.process == nil {
		return
	}
	if err := h.process.stop(); err != nil {
		h.t.Errorf("the hub ended with %v, want no error", err)
	}
}

// expectRuns fails the test if the hub has ended.
func (h *hub) expectRuns() {
	h.t.Helper()
	if !h.process.runs() {
		h.t.Fatalf("the hub ended: %v", h.process.err)
	}
}

// register creates a Secret and a Cluster of that name, and deletes both when the test ends.
func (h *hub) register(name string, kubeconfig []byte, change func(*hubv1.Cluster)) {
	h.t.Helper()
	h.putSecret(name, map[string][]byte{"kubeconfig": kubeconfig})
	h.create(name, change)
}

// putSecret creates a Secret or replaces its data.
func (h *hub) putSecret(name string, data map[string][]byte) {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace}, Data: data}
	err := h.Create(h.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		must(h.t, h.Update(h.t.Context(), secret))
		return
	}
	must(h.t, err)
	h.t.Cleanup(func() {
		must(h.t, client.IgnoreNotFound(h.Delete(context.WithoutCancel(h.t.Context()), secret)))
	})
}

func (h *hub) deleteSecret(name string) {
	h.t.Helper()
	must(h.t, h.Delete(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace},
	}))
}

// create creates a Cluster that names the Secret of the same name and has a short probe period.
func (h *hub) create(name string, change func(*hubv1.Cluster)) {
	h.t.Helper()
	c := newCluster(name)
	if change != nil {
		change(c)
	}
	must(h.t, h.Create(h.t.Context(), c))
	h.registered = append(h.registered, name)
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

// tidy removes the Clusters of a test that has ended: through the hub if it is running, otherwise directly.
func (h *hub) tidy() {
	h.t.Helper()
	ctx := context.WithoutCancel(h.t.Context())
	for _, name := range h.registered {
		must(h.t, client.IgnoreNotFound(h.Delete(ctx, &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	}
	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, name := range h.registered {
		if h.process != nil && h.process.runs() && !h.t.Failed() {
			h.awaitGone(ctx, name)
			continue
		}
		must(h.t, client.IgnoreNotFound(h.Patch(ctx, &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, release)))
	}
}

// remove deletes a Cluster without waiting.
func (h *hub) remove(name string) {
	h.t.Helper()
	must(h.t, h.Delete(h.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// expectGone waits until a Cluster is gone, and returns the time that this took.
func (h *hub) expectGone(name string) time.Duration {
	h.t.Helper()
	return h.awaitGone(h.t.Context(), name)
}

func (h *hub) awaitGone(ctx context.Context, name string) time.Duration {
	h.t.Helper()
	return within(h.t, patience, func() error {
		var c hubv1.Cluster
		if err := h.Get(ctx, client.ObjectKey{Name: name}, &c); err != nil {
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

// change updates a Cluster as a user would.
func (h *hub) change(name string, f func(*hubv1.Cluster)) {
	h.t.Helper()
	eventually(h.t, func() error {
		c := h.get(name)
		f(c)
		return h.Update(h.t.Context(), c)
	})
}

// expect waits until a condition of a Cluster has a status and a reason.
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
