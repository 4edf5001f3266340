// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// deaf is a source that never receives all of its initial objects.
type deaf struct{}

var _ source.SyncingSource = deaf{}

func (deaf) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

func (deaf) WaitForSync(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// watchingModule returns a module with the controllers that watch sets up. They do nothing.
func watchingModule(name string, watch func(ctrl.Manager, reconcile.Reconciler) error) registry.Module {
	nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
	return registry.NewModule(name, registry.ModuleOptions{Remote: fx.Invoke(func(mgr ctrl.Manager) error {
		return watch(mgr, nothing)
	})})
}

func watchEach(objects ...client.Object) func(ctrl.Manager, reconcile.Reconciler) error {
	return func(mgr ctrl.Manager, nothing reconcile.Reconciler) error {
		for _, object := range objects {
			if err := ctrl.NewControllerManagedBy(mgr).For(object).Complete(nothing); err != nil {
				return err
			}
		}
		return nil
	}
}

// statesOf returns one line for each controller of a module, with the words that its message contains.
func statesOf(info registry.Status, module string, words ...string) []string {
	var all []string
	for _, m := range info.Modules {
		for _, c := range m.Controllers {
			line := fmt.Sprintf("%s %s %s", c.Name, c.State, c.Reason)
			for _, word := range words {
				if strings.Contains(c.Message, word) {
					line += " " + word
				}
			}
			if m.Name == module {
				all = append(all, line)
			}
		}
	}
	return all
}

func expectControllers(t *testing.T, r *registry.Registry, name registry.ClusterName, module string, words, want []string) registry.Status {
	t.Helper()
	var info registry.Status
	eventually(t, func() error {
		info, _ = r.Status(name)
		if diff := cmp.Diff(want, statesOf(info, module, words...)); diff != "" {
			return fmt.Errorf("controllers of module %s, -want +got: %s\n%+v", module, diff, info.Modules)
		}
		return nil
	})
	return info
}

// The status of every controller has the kind that it waits for and the reason. Each of two waiting modules reports its own reason.
func TestControllers_SayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	pods := watchingModule("pods", func(mgr ctrl.Manager, nothing reconcile.Reconciler) error {
		return ctrl.NewControllerManagedBy(mgr).Named("both").For(&corev1.ConfigMap{}).
			Watches(&corev1.Pod{}, &handler.EnqueueRequestForObject{}).Complete(nothing)
	})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{watchingModule("mixed", watchEach(&corev1.ConfigMap{}, &corev1.Node{}, &corev1.Node{})), pods}
	})
	one := fleettest.Cluster(t, "one")
	clerk := fleet.User{Name: "clerk-of-maps", Rules: []rbacv1.PolicyRule{rights("configmaps")}}
	minted, err := one.MintCertificate(t.Context(), clerk)
	must(t, err)
	must(t, r.Ensure("some-rights", configFor(t, minted.Kubeconfig())))
	words := []string{"nodes", "pods", "configmaps"}
	expectControllers(t, r, "some-rights", "mixed", words, []string{
		"configmap Running ", "node Waiting Forbidden nodes", "node-2 Waiting Forbidden nodes",
	})
	info := expectControllers(t, r, "some-rights", "pods", words, []string{"both Waiting Forbidden pods"})
	for i, want := range []string{"nodes", "pods"} {
		if m := info.Modules[i]; m.State != state.ModuleWaiting || !strings.Contains(m.Message, "list and watch "+want) {
			t.Errorf("module %s does not wait for %s: %+v", m.Name, want, m)
		}
	}
	clerk.Rules = append(clerk.Rules, rights("nodes"), rights("pods"))
	if _, err := one.MintCertificate(t.Context(), clerk); err != nil {
		t.Fatalf("grant: %v", err)
	}
	expectState(t, r, "some-rights", state.StateReady, state.ReasonReady)
	expectControllers(t, r, "some-rights", "mixed", words, []string{"configmap Running ", "node Running ", "node-2 Running "})
}

func rights(resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}
}

// A start that takes too long names the controller that waits, and the source that it waits for.
func TestControllers_ThatWaitTooLongAreNamed(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(o *registry.Options) {
		o.Limits = registry.Limits{SyncTimeout: 4 * time.Second}
		o.Modules = []registry.Module{watchingModule("deaf", func(mgr ctrl.Manager, nothing reconcile.Reconciler) error {
			return ctrl.NewControllerManagedBy(mgr).Named("patient").For(&corev1.Node{}).
				WatchesRawSource(deaf{}).Complete(nothing)
		}), registry.NewModule("well", registry.ModuleOptions{})}
	})
	_, config := remote(t, "one")
	config.Probe.Period = 200 * time.Millisecond // Each probe updates the states of the controllers.
	must(t, r.Ensure("deaf", config))
	words, want := []string{"a source of its own"}, []string{"patient Starting Starting a source of its own"}
	expectControllers(t, r, "deaf", "deaf", words, want)
	info := expectState(t, r, "deaf", state.StateFailed, state.ReasonCacheSyncTimedOut)
	if !strings.Contains(info.Message, "patient waits for a source of its own") {
		t.Errorf("got message %q, want it to name the controller", info.Message)
	}
	if m := info.Modules[1]; m.Name != "well" || m.State != state.ModuleStopped {
		t.Errorf("got %+v while no app runs, want the other module to be Stopped", m)
	}
	if left := statesOf(info, "deaf"); len(left) != 0 {
		t.Errorf("got controllers %q while no app runs, want 0", left)
	}
	again := expectControllers(t, r, "deaf", "deaf", words, want)
	if got := again.Modules[0].State; got != state.ModuleFailed {
		t.Errorf("the module is %s during the next start, want it to stay Failed", got)
	}
}

// released is a source that has its initial objects when release is closed.
type released struct {
	deaf
	release <-chan struct{}
}

func (s released) WaitForSync(ctx context.Context) error {
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A controller that a module adds while it runs has its own state. The remote stays Ready and the module Running, until the
// controller has waited longer than a start may; leases continue then, too.
func TestControllers_AddedLater(t *testing.T) {
	t.Parallel()
	release, ready := make(chan struct{}), make(chan struct{})
	r := newRegistry(t, func(o *registry.Options) {
		o.Limits = registry.Limits{SyncTimeout: 4 * time.Second}
		o.Modules = []registry.Module{watchingModule("growing", func(mgr ctrl.Manager, nothing reconcile.Reconciler) error {
			if err := watchEach(&corev1.Node{})(mgr, nothing); err != nil {
				return err
			}
			return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				select {
				case <-ready:
				case <-ctx.Done():
					return nil
				}
				return ctrl.NewControllerManagedBy(mgr).Named("late").WatchesRawSource(released{release: release}).Complete(nothing)
			}))
		})}
	})
	_, config := remote(t, "one")
	config.Probe.Period = 200 * time.Millisecond // Each probe updates the states of the controllers.
	must(t, r.Ensure("growing", config))
	expectState(t, r, "growing", state.StateReady, state.ReasonReady)
	close(ready)
	info := expectControllers(t, r, "growing", "growing", nil, []string{"node Running ", "late Starting Starting"})
	if m := info.Modules[0]; info.App.Status != metav1.ConditionTrue || m.State != state.ModuleRunning {
		t.Errorf("got App %+v and module %+v, want them to stay as they were", info.App, m)
	}
	info = expectState(t, r, "growing", state.StateReady, state.ReasonCacheSyncTimedOut)
	m := info.Modules[0]
	if info.App.Status != metav1.ConditionFalse || m.State != state.ModuleStarting || m.Reason != state.ReasonCacheSyncTimedOut ||
		!strings.Contains(info.Message, `module "growing"`) || !strings.Contains(info.Message, "late waits for a source of its own") {
		t.Errorf("got %+v, want the module that has waited too long", info)
	}
	if err := r.WithClient(t.Context(), "growing", func(context.Context, client.Client) error { return nil }); err != nil {
		t.Errorf("WithClient: %v", err)
	}
	close(release)
	info = expectState(t, r, "growing", state.StateReady, state.ReasonReady)
	if m := info.Modules[0]; m.State != state.ModuleRunning || info.App.Status != metav1.ConditionTrue {
		t.Errorf("got App %+v and module %+v, want both to run", info.App, m)
	}
}
