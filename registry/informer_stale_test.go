// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Informers are Stale soon. The condition of their app then stays True, or is False at once.
const (
	staleAfter = time.Second
	tolerant   = time.Hour
	intolerant = time.Nanosecond
)

func soonStale(t *testing.T, tolerance time.Duration, modules ...registry.Module) (*registry.Registry, *prometheus.Registry) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	return newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Metrics = modules, metrics
		o.Limits.StaleAfter, o.Limits.StaleTolerance = staleAfter, tolerance
	}), metrics
}

// expectApp waits until the app of a remote has this condition, and returns the status. client-go waits for up to a
// minute before it retries.
func expectApp(t *testing.T, r *registry.Registry, name registry.ClusterName, status metav1.ConditionStatus, reason string) registry.Status {
	t.Helper()
	var last registry.Status
	eventually(t, func() error {
		last, _ = r.Status(name)
		if last.State != state.StateReady || last.App.Status != status || last.App.Reason != reason {
			return fmt.Errorf("want Ready and %s/%s, got %s and %+v", status, reason, last.State, last.App)
		}
		return nil
	})
	return last
}

// expectStale waits until the messages of a Stale app have the texts, and checks that the status has no text of the remote.
func expectStale(t *testing.T, r *registry.Registry, name registry.ClusterName, status metav1.ConditionStatus, texts ...string) (last registry.Status) {
	t.Helper()
	eventually(t, func() error {
		last = expectApp(t, r, name, status, state.ReasonStale)
		m := last.Modules[0]
		for _, text := range texts {
			if m.State != state.ModuleRunning || m.Reason != state.ReasonStale || !strings.Contains(m.Message, text) || !strings.Contains(last.App.Message, text) {
				return fmt.Errorf("want Running, Stale and %q in both messages, got %+v", text, last)
			}
		}
		return nil
	})
	if all := fmt.Sprintf("%+v", last); strings.Contains(all, canary) {
		t.Errorf("got text of the remote in %s", all)
	}
	return last
}

const configMaps = "/api/v1/configmaps"

func staleSeries(name string) map[string]string {
	return map[string]string{"cluster": name, "kind": "ConfigMap"}
}

// An informer whose lists and watches fail is reported with its kind, a module and the cause: the condition of the app
// stays True at first, and is False later. Leases continue, and the informer recovers by itself.
func TestStale_ListsFail(t *testing.T) {
	t.Parallel()
	t.Run("at first", func(t *testing.T) { listsFail(t, tolerant, metav1.ConditionTrue, state.ReasonReady) })
	t.Run("later", func(t *testing.T) { listsFail(t, intolerant, metav1.ConditionFalse, state.ReasonStale) })
}

func listsFail(t *testing.T, tolerance time.Duration, status metav1.ConditionStatus, reason string) {
	t.Helper()
	t.Parallel()
	var c counter
	r, metrics := soonStale(t, tolerance, c.module())
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	spawn(t, r, "edge", config)
	f.set(at(configMaps), refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	info := expectStale(t, r, "edge", status, "ConfigMap", "status 500")
	if !strings.Contains(info.App.Message, `"counter"`) || info.Reason != reason {
		t.Errorf("got %+v, want reason %s and the module in the message", info, reason)
	}
	testkit.Equal(t, metric(t, metrics, "clusterfx_informers_stale", staleSeries("edge")), 1, "clusterfx_informers_stale")
	if err := r.WithClient(t.Context(), "edge", func(context.Context, client.Client) error { return nil }); err != nil {
		t.Errorf("WithClient: %v", err)
	}
	epoch := info.Epoch
	f.set(nil, nil)
	info = expectApp(t, r, "edge", metav1.ConditionTrue, state.ReasonRunning)
	if info.Epoch != epoch || info.Modules[0].Reason != state.ReasonRunning {
		t.Errorf("got %+v, want epoch %d and reason Running", info, epoch)
	}
	testkit.Equal(t, metric(t, metrics, "clusterfx_informers_stale", staleSeries("edge")), 0, "clusterfx_informers_stale")
}

// An API server that responds to each watch with 410 gets few requests, the app receives new objects from lists, and
// the status reports the cause.
func TestStale_WatchesExpire(t *testing.T) {
	fleettest.Slow(t, "nothing: that requests are few while watches expire, and that objects come from lists, shows only after the waits of client-go")
	t.Parallel()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		cause  string
	}{
		"as a status":   {refuse(http.StatusGone, metav1.StatusReasonExpired), "status 410"},
		"as gone":       {refuse(http.StatusGone, metav1.StatusReasonGone), "status 410"},
		"as an event":   {expire, "ends every watch at once"},
		"in plain text": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusGone) }, "status 410"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c counter
			r, _ := soonStale(t, intolerant, c.module())
			one := fleettest.Cluster(t, "one")
			f, config := newFront(t, one)
			edge := registry.ClusterName(strings.ReplaceAll(name, " ", "-"))
			spawn(t, r, edge, config)
			began := time.Now()
			f.set(watchesOf(configMaps), tc.answer)
			expectStale(t, r, edge, metav1.ConditionFalse, "ConfigMap", tc.cause)
			// client-go relists after 0.8 s, 1.6 s and so on, each time after up to four watches.
			if n := f.requests.Load(); n > 25 {
				t.Errorf("got %d watches in %s, want 25 at most", n, time.Since(began))
			}
			expectSeenBy(t, one, newConfigMap(t, one), string(edge))
			f.set(nil, nil)
			expectApp(t, r, edge, metav1.ConditionTrue, state.ReasonRunning)
		})
	}
}

// An app also starts if watches expire from the beginning.
func TestStale_WatchesExpireFromTheBeginning(t *testing.T) {
	t.Parallel()
	var c counter
	r, _ := soonStale(t, tolerant, c.module())
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	f.set(watchesOf(configMaps), refuse(http.StatusGone, metav1.StatusReasonExpired))
	spawn(t, r, "edge", config)
	expectStale(t, r, "edge", metav1.ConditionTrue, "ConfigMap", "status 410")
}

func idle() reconcile.Reconciler {
	return reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
}

// The registry reports the module that started an informer, also if the module started it with a read.
func TestStale_WhoseInformer(t *testing.T) {
	t.Parallel()
	var c counter
	read := make(chan error, 1)
	reader := registry.NewModule("reader", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return p.Manager.Add(runnable(func(ctx context.Context) error {
			read <- p.Client.List(ctx, &corev1.ServiceList{})
			<-ctx.Done()
			return nil
		}))
	})})
	r, _ := soonStale(t, tolerant, c.module(), reader)
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	config.Client.Timeout = time.Second
	f.set(at("/api/v1/services"), refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))
	spawn(t, r, "edge", config)
	select {
	case err := <-read:
		if err == nil {
			t.Error("list Services: got no error, want one")
		}
	case <-time.After(patience):
		t.Fatal("the module has not read Services")
	}
	expectStaleModules(t, r, "Service", "reader")
	f.set(nil, nil)
	expectStaleModules(t, r, "Service")
}

// expectStaleModules waits until exactly these modules have a stale informer of a kind.
func expectStaleModules(t *testing.T, r *registry.Registry, kind string, want ...string) {
	t.Helper()
	eventually(t, func() error {
		var found []string
		info, _ := r.Status("edge")
		for _, m := range info.Modules {
			if m.Reason == state.ReasonStale && strings.Contains(m.Message, kind) {
				found = append(found, m.Name)
			}
		}
		if !slices.Equal(found, want) {
			return fmt.Errorf("modules with a stale informer of %s: %q, want %q", kind, found, want)
		}
		return nil
	})
}

type runnable func(context.Context) error

func (f runnable) Start(ctx context.Context) error { return f(ctx) }
