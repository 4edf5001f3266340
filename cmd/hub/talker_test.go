// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// The messages that the module talker logs, and the ConfigMaps in the namespace default of a remote that make it fail.
const (
	saidByReconciler = "The talker looks at a ConfigMap"
	saidByLogger     = "The talker is there"
	makesItFail      = "an-error"
	makesItPanic     = "a-panic"
)

// talker returns a module that logs in every way that a module can, fails and panics if these ConfigMaps exist, and
// uses remotes from its hub part.
func talker() registry.Module {
	return registry.NewModule("talker", registry.ModuleOptions{
		Remote: fx.Invoke(func(r registry.Remote) error {
			r.Logger.Info(saidByLogger)
			r.Manager.GetLogger().Info(saidByLogger)
			return registry.ControllerManagedBy(r.Manager).Named("talker").For(&corev1.ConfigMap{}).
				Complete(&talking{remote: r.Client})
		}),
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(mgr ctrl.Manager, remotes *registry.Registry) error {
			return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				visitAll(ctx, remotes)
				return nil
			}))
		}),
	})
}

type talking struct{ remote client.Client }

func (r *talking) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var one corev1.ConfigMap
	if err := r.remote.Get(ctx, request.NamespacedName, &one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info(saidByReconciler, "object", &one)
	switch request.Name {
	case makesItFail:
		return ctrl.Result{}, errors.New("the ConfigMap says so")
	case makesItPanic:
		panic("the ConfigMap says so")
	}
	if one.Labels["seen"] == "" && request.Namespace == corev1.NamespaceDefault {
		patch := client.MergeFrom(one.DeepCopy())
		one.Labels = map[string]string{"seen": "yes"}
		return ctrl.Result{}, r.remote.Patch(ctx, &one, patch)
	}
	return ctrl.Result{}, nil
}

func visitAll(ctx context.Context, remotes *registry.Registry) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		for _, info := range remotes.List() {
			_ = remotes.WithClient(ctx, info.Name, func(ctx context.Context, remote client.Client) error {
				return remote.Get(ctx, client.ObjectKey{Name: corev1.NamespaceDefault}, &corev1.Namespace{})
			})
		}
	}
}

func startTalker(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startWith(t, append([]string{asHub + "=" + asTalker}, env...), args...)
}

// quiet returns the arguments of a hub that serves nothing and may use remotes on this machine.
func quiet(kubeconfig string, more ...string) []string {
	return append([]string{
		"run", "--kubeconfig=" + kubeconfig, "--allow-cidr=127.0.0.0/8",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, more...)
}

// allRights are the permissions of the hub in a remote.
var allRights = []rbacv1.PolicyRule{
	{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
}

func waitForCluster(t *testing.T, hub *fleet.Cluster, name string) {
	t.Helper()
	c := clientFor(t, hub)
	eventually(t, func() error { return c.Get(t.Context(), client.ObjectKey{Name: name}, &hubv1.Cluster{}) })
}
