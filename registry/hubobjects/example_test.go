// SPDX-License-Identifier: Apache-2.0

package hubobjects_test

import (
	"context"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

// A module that copies the ConfigMaps of the hub with the label example.com/cluster into the remote that the label names.
func Example() {
	setUp := func(p registry.Remote) error {
		configs, err := p.HubObjects.Watch(hubobjects.Selection{
			Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel("example.com/cluster"),
		}, string(p.Name))
		if err != nil {
			return err
		}
		return registry.ControllerManagedBy(p.Manager).Named("copies").
			WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
	}
	_ = registry.NewModule("copies", registry.ModuleOptions{
		Remote: fx.Invoke(setUp),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
		}},
		HubRules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"},
		}},
	})
}

type copier struct {
	hub    *hubobjects.Objects
	remote client.Client
}

func (c *copier) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.Name}}
	err := c.hub.Get(ctx, r.NamespacedName, &original)
	if apierrors.IsNotFound(err) {
		if gone, ok := c.hub.Deleted(r.NamespacedName); ok {
			// Only a delete that the hub confirms is declared; every other counts towards the limit.
			if ctx, err = gone.Declare(ctx); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, client.IgnoreNotFound(c.remote.Delete(ctx, made))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	_, err = controllerutil.CreateOrUpdate(ctx, c.remote, made, func() error {
		made.Data = original.Data
		return nil
	})
	return ctrl.Result{}, err
}
