// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
)

// echo is the module that the tests of this package run: it copies the ConfigMap shout of every remote to the hub.
func echo() registry.Module {
	return registry.NewModule("echo", registry.ModuleOptions{
		Remote: fx.Invoke(listen), Rules: []rbacv1.PolicyRule{may("configmaps", "list", "watch", "create")},
	})
}

func listen(p registry.Remote) error {
	r := reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		if r.Name != "shout" {
			return ctrl.Result{}, nil
		}
		var shout corev1.ConfigMap
		if err := p.Client.Get(ctx, r.NamespacedName, &shout); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		heard := corev1ac.ConfigMap("echo-"+string(p.Name), "default").WithData(shout.Data)
		return ctrl.Result{}, p.HubClient.Apply(ctx, heard, client.FieldOwner("echo"), client.ForceOwnership)
	})
	return registry.ControllerManagedBy(p.Manager).Named("echo").For(&corev1.ConfigMap{}).
		Complete(r)
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func shout(text string) *corev1.ConfigMap {
	cm := configMap("shout")
	cm.Data = map[string]string{"text": text}
	return cm
}

func expectEcho(t testing.TB, hub *hubtest.Hub, remote *hubtest.Remote, text string) {
	t.Helper()
	remote.Delete(configMap("shout"))
	remote.Create(shout(text))
	heard := configMap("echo-" + remote.Name())
	hub.WaitFor(heard, func() error {
		if want := map[string]string{"text": text}; !maps.Equal(heard.Data, want) {
			return fmt.Errorf("got data %v, want %v", heard.Data, want)
		}
		return nil
	})
}

// epoch returns the number of the app of a remote.
func epoch(t testing.TB, hub *hubtest.Hub, remote *hubtest.Remote) int64 {
	t.Helper()
	info, ok := hub.Registry().Status(registry.ClusterName(remote.Name()))
	if !ok {
		t.Fatalf("hub does not know remote %s", remote.Name())
	}
	return info.Epoch
}

// ask sends a request to a remote through its app.
func ask(ctx context.Context, hub *hubtest.Hub, remote *hubtest.Remote) error {
	return hub.Registry().WithClient(ctx, registry.ClusterName(remote.Name()),
		func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, configMap("nothing"), client.DryRunAll)
		})
}

func within(d time.Duration, f func() error) error {
	began := time.Now()
	err := f()
	if took := time.Since(began); err == nil && took > d {
		err = fmt.Errorf("took %s", took)
	}
	return err
}
