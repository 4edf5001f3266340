// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"fmt"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
)

// between is a module that copies labeled ConfigMaps of the remote a to the remote b, from a hub part.
func between() registry.Module {
	start := func(p registry.HubPart) error {
		pair, err := syncer.NewPair(syncer.PairOptions{
			Name: "a-b", Manager: p.Manager, OneToOne: true, Metrics: p.Metrics,
			Upstream: syncer.Leased(p.Registry, "a"), Downstream: syncer.Leased(p.Registry, "b"),
			Identity: syncer.Identity{Tenant: "a", TargetNamespace: metav1.NamespaceDefault},
		})
		if err != nil {
			return err
		}
		return syncer.Register(pair, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"},
			syncer.NewNamespaced[*corev1.ConfigMap](pair.Identity(), syncer.TranslatorOptions{}),
			syncer.Options[*corev1.ConfigMap]{Select: func(up *corev1.ConfigMap) bool { return up.Labels["copied"] == "true" }})
	}
	return registry.NewModule("between", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(start),
		Remote:  fx.Options(),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
		},
	})
}

// A hub part copies objects between two remotes: while one of them is away, nothing is lost and nothing is deleted.
func TestLeased(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(between()))
	a, b := hub.Remote("a"), hub.Remote("b")
	original := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"copied": "true"}},
			Data:       map[string]string{"value": value},
		}
	}
	copied := func(name, value string) {
		t.Helper()
		found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name + "-x-default-x-a"}}
		b.WaitFor(found, func() error {
			if found.Data["value"] != value {
				return fmt.Errorf("got %q", found.Data["value"])
			}
			return nil
		})
	}
	first := original("first", "1")
	a.Create(first)
	copied("first", "1")

	b.Refuse()
	b.WaitNotReady("Unreachable")
	a.Create(original("second", "2"))
	a.Delete(original("first", ""))
	b.Repair()
	b.WaitReady()
	copied("second", "2")
	b.WaitGone(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "first-x-default-x-a"}})
	a.WaitGone(original("first", ""))

	a.Refuse()
	a.WaitNotReady("Unreachable")
	b.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "second-x-default-x-a"}})
	a.Repair()
	a.WaitReady()
	copied("second", "2")
}
