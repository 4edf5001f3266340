// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// hubModule returns a module that has a hub part only.
func hubModule(name string, hub fx.Option) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: hub})
}

func partNamed(r *registry.Registry, name string) state.HubPartStatus {
	for _, one := range r.HubParts() {
		if one.Module == name {
			return one
		}
	}
	return state.HubPartStatus{}
}

// expectPart waits until a hub part is in a state and its message contains a text.
func expectPart(t *testing.T, r *registry.Registry, name, want, says string) state.HubPartStatus {
	t.Helper()
	var one state.HubPartStatus
	eventually(t, func() error {
		if one = partNamed(r, name); one.State != want || !strings.Contains(one.Message, says) {
			return fmt.Errorf("got %+v, want %s with %q", one, want, says)
		}
		return nil
	})
	return one
}

// hubPartFaults are the ways in which code of a hub part fails, each with a part of the resulting message.
func hubPartFaults() map[string]struct {
	part fx.Option
	says string
} {
	boom := func() { panic("boom") }
	onPods := func(m ctrl.Manager, b func(*ctrl.Builder) *ctrl.Builder) error {
		return b(ctrl.NewControllerManagedBy(m).Named("faulty")).Complete(reconcile.Func(
			func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
	}
	return map[string]struct {
		part fx.Option
		says string
	}{
		"invoke":     {fx.Invoke(boom), "boom"},
		"start hook": {fx.Invoke(func(l fx.Lifecycle) { l.Append(fx.StartHook(boom)) }), "OnStart hook: panic: boom"},
		"runnable": {fx.Invoke(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("no database") }))
		}), "no database"},
		"Follow and Source": {fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
			return onPods(m, func(b *ctrl.Builder) *ctrl.Builder {
				return b.WatchesRawSource(registry.Source(r, func(registry.Event) []ctrl.Request { panic("boom") }))
			})
		}), "function given to Follow: panic: boom"},

		"map function": {fx.Invoke(func(m ctrl.Manager) error {
			return onPods(m, func(b *ctrl.Builder) *ctrl.Builder {
				return b.For(&corev1.ConfigMap{}).Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(
					func(context.Context, client.Object) []ctrl.Request { panic("boom") }))
			})
		}), "event handler: panic: boom"},

		"supervised reconciler": {fx.Invoke(func(m ctrl.Manager) error {
			return registry.ControllerManagedBy(m).Named("faulty").For(&corev1.Namespace{}).Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { panic("boom") }))
		}), "does nothing but panic"},
		"webhook server": {fx.Invoke(func(m ctrl.Manager) { // it has no certificate
			m.GetWebhookServer().Register("/hook", http.NotFoundHandler())
		}), "tls.crt"},
		"watch of a remote": {fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error { return watchNamespaces(ctx, r) }))
		}), "event handler: panic: boom"},
	}
}

// The hub part of a module that fails, in any of its functions, fails alone and restarts. Another hub part and the apps
// of the remotes keep running.
// Promise: a hub part fails alone.
func TestHubParts_FailAlone(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	for name, fault := range hubPartFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var heard atomic.Int64
			r, run, err := hubApp(t,
				hubModule("faulty", fault.part).Option(),
				hubModule("well", fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
					return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
						r.Follow(ctx, func(registry.Event) { heard.Add(1) })
						<-ctx.Done()
						return nil
					}))
				})).Option(),
			)
			must(t, err)
			run()
			spawn(t, r, "a", config)
			one := expectPart(t, r, "faulty", state.ModuleFailed, fault.says)
			eventually(t, func() error { // It restarts.
				if now := partNamed(r, "faulty"); now.Restarts <= one.Restarts {
					return fmt.Errorf("got %+v, want a restart", now)
				}
				return nil
			})
			if well := expectPart(t, r, "well", state.ModuleRunning, ""); well.Restarts > 0 || heard.Load() == 0 {
				t.Errorf("the other hub part: got %+v with %d events, want 0 restarts and an event", well, heard.Load())
			}
			if info, _ := r.Status("a"); info.State != state.StateReady || info.Restarts > 0 {
				t.Errorf("got remote %+v, want Ready with 0 restarts", info)
			}
		})
	}
}

// watchNamespaces adds a handler that panics to the cache of every remote that is ready.
func watchNamespaces(ctx context.Context, r *registry.Registry) error {
	r.Follow(ctx, func(e registry.Event) {
		if e.Kind == registry.EventReady {
			_ = r.WithCluster(ctx, e.Name, addPanic)
		}
	})
	<-ctx.Done()
	return nil
}

func addPanic(ctx context.Context, c cluster.Cluster) error {
	informer, err := c.GetCache().GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("boom") }})
	return err
}

// The hub part of a module that lacks a permission in the hub waits and names the permission; the other hub parts run.
// It starts when the permission is granted, and is Degraded when the permission is revoked.
func TestHubParts_MissingRight(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "hub")
	user := "hub-without-secrets-" + utilrand.String(5) // a new user for each run, without permissions of the last run
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: user, Rules: []rbacv1.PolicyRule{rule("namespaces", "get", "list", "watch")}})
	must(t, err)
	watches := func(kind client.Object) fx.Option {
		return fx.Invoke(func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).Named("one").For(kind).Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		})
	}
	var o registry.Options
	o.Hasten()
	r, run, err := hubAppWith(t, credential.Config(), o,
		registry.NewModule("lacks", registry.ModuleOptions{
			HubRuns: registry.WithRemotes,
			Hub:     watches(&corev1.Secret{}), HubRules: []rbacv1.PolicyRule{rule("secrets", "get", "list", "watch")},
			HubNamespaces: []string{"kube-public"},
		}).Option(),
		hubModule("declares-nothing", watches(&corev1.ConfigMap{})).Option(),
		registry.NewModule("well", registry.ModuleOptions{
			HubRuns: registry.WithRemotes,
			Hub:     watches(&corev1.Namespace{}), HubRules: []rbacv1.PolicyRule{rule("namespaces", "list", "watch")},
		}).Option(),
	)
	must(t, err)
	run()
	waiting := expectPart(t, r, "lacks", state.ModuleWaiting, "list secrets in kube-public")
	if waiting.Reason != state.ReasonRightsMissing {
		t.Errorf("got %+v, want reason RightsMissing", waiting)
	}
	expectPart(t, r, "declares-nothing", state.ModuleWaiting, "configmaps")
	expectPart(t, r, "well", state.ModuleRunning, "")

	admin := clientFor(t, c)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: "kube-public"},
		Rules:      []rbacv1.PolicyRule{rule("secrets", "get", "list", "watch")},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: "kube-public"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	must(t, errors.Join(admin.Create(t.Context(), role), admin.Create(t.Context(), binding)))
	expectPart(t, r, "lacks", state.ModuleRunning, "")
	must(t, admin.Delete(t.Context(), binding))
	if one := expectPart(t, r, "lacks", state.ModuleDegraded, ""); one.Reason != state.ReasonRightsMissing {
		t.Errorf("got %+v, want reason RightsMissing", one)
	}
	expectPart(t, r, "well", state.ModuleRunning, "")
}

// A hub part whose reconciler is deadlocked while work waits is Degraded, is not restarted, and does not make the hub give up its
// lease. It is Running again when the reconcile has ended. Another hub part is not affected.
func TestHubParts_NoProgress(t *testing.T) {
	t.Parallel()
	monitor := liveness.New(liveness.Options{After: 3 * time.Second})
	release := make(chan struct{})
	stuck := func(ctrl.Request) (ctrl.Result, error) {
		<-release
		return ctrl.Result{}, nil
	}
	r, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), registry.Options{Monitor: monitor},
		hubModule("objects", fx.Invoke(func(m ctrl.Manager) error {
			return registry.ControllerManagedBy(m).Named("first").For(&corev1.Namespace{}).Complete(reconcile.Func(
				func(_ context.Context, q ctrl.Request) (ctrl.Result, error) { return stuck(q) }))
		})).Option(),
		hubModule("remotes", fx.Invoke(func(m ctrl.Manager, r *registry.Registry) error {
			return watch.ControllerManagedBy(m, r).Named("second").For(&corev1.Namespace{}).Complete(reconcile.TypedFunc[watch.Request](
				func(_ context.Context, q watch.Request) (ctrl.Result, error) {
					return stuck(ctrl.Request{NamespacedName: q.NamespacedName})
				}))
		})).Option(),
		hubModule("well", fx.Invoke(func(m ctrl.Manager) error {
			return registry.ControllerManagedBy(m).Named("third").For(&corev1.Namespace{}).Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		})).Option(),
	)
	must(t, err)
	testkit.Background(t, func(ctx context.Context) error {
		monitor.Run(ctx)
		return nil
	})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	run()
	for name, controller := range map[string]string{"objects": "first", "remotes": "second"} {
		one := expectPart(t, r, name, state.ModuleDegraded, "each is in a reconcile that is stuck or slow: controller "+controller)
		if one.Reason != state.ReasonNoProgress || one.Restarts > 0 {
			t.Errorf("hub part with a deadlocked reconciler: got %+v, want NoProgress with 0 restarts", one)
		}
	}
	if err := monitor.Err(); err != nil {
		t.Errorf("the hub would give up its lease: %v", err)
	}
	expectPart(t, r, "well", state.ModuleRunning, "")
	free()
	expectPart(t, r, "objects", state.ModuleRunning, "")
	expectPart(t, r, "remotes", state.ModuleRunning, "")
}

// A middleware of a hub part applies to the remotes.
func TestHubParts_Middleware(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	var asked atomic.Int64
	r, run, err := hubApp(t, hubModule("observer", registry.WithMiddleware(registry.Middleware{
		Name: "observer", Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			asked.Add(1)
			return next
		},
	})).Option())
	must(t, err)
	run()
	expectPart(t, r, "observer", state.ModuleRunning, "") // Until then, the middleware is not in force.
	spawn(t, r, "a", config)
	if asked.Load() == 0 {
		t.Error("the middleware was not applied")
	}
}
