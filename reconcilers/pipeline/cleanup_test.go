// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
)

// The objects of a deregistered remote lose the pipeline's finalizer, because no hub handles them afterwards.
func TestCleanup_LetsObjectsGo(t *testing.T) {
	t.Parallel()
	const objects = 4
	hub, remote := fleettest.Cluster(t, "hub"), fleettest.Cluster(t, "deregistered")
	s := serverIn(t, remote.Config())
	var j servertest.Journal
	keep := func(ctx context.Context, _ *Widget) error {
		pipeline.FlowFrom(ctx).KeepFinalizer("not yet")
		return nil
	}
	set := every(&part{name: "p", journal: &j, deleted: keep})
	r := servertest.NewRegistry(t, hub.Config(), registry.Options{Scheme: fleettest.Scheme(t, addWidgets), Modules: []registry.Module{
		registry.NewModule("widgets", registry.ModuleOptions{Remote: fx.Options(
			pipeline.Module(named(pipeline.Options[*Widget]{})),
			pipeline.AsSet[*Widget](name, func() pipeline.Set[*Widget] { return set }),
		)}),
	}})
	servertest.Spawn(t, r, "edge", remote.Kubeconfig())
	for i := range objects {
		s.Make(fmt.Sprint("w-", i), func(w *Widget) { controllerutil.AddFinalizer(w, foreign) })
	}
	for i := range objects {
		s.expectSoon(fmt.Sprint("w-", i), metav1.ConditionTrue, pipeline.ReasonReady)
	}
	s.Remove("w-0") // The remote is deregistered during this deletion.
	s.expectSoon("w-0", metav1.ConditionFalse, pipeline.ReasonDeleting, "Reconciling")

	servertest.Remove(t, r, "edge")
	for i := range objects {
		name := fmt.Sprint("w-", i)
		testkit.Equal(t, s.Read(name).Finalizers, []string{foreign}, name, "finalizers")
	}
	if j.Count("delete p") == 0 {
		t.Error("no resource was deleted before the deregistration")
	}
}

// Cleanup works with credentials for one namespace, which cannot list the objects of all namespaces.
func TestCleanup_WithCredentialsForANamespace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const user = "limited"
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: user}
	must(t, s.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list", "watch", "patch"}},
	}}))
	must(t, s.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	s.Make("w", func(w *Widget) { w.Finalizers = []string{finalizer, foreign} })
	mgr := s.With(as(user)).Manager()
	s.Run(mgr)
	s.Eventually(func() error { return mgr.GetClient().Get(t.Context(), s.Key("w"), &Widget{}) })
	err := mgr.GetAPIReader().List(t.Context(), &WidgetList{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("list of all namespaces: got %v, want Forbidden", err)
	}
	must(t, pipeline.Cleanup[*Widget](mgr, name).Run(t.Context()))
	testkit.Equal(t, s.Read("w").Finalizers, []string{foreign}, "finalizers")
}

// Cleanup names an object that it cannot change, and continues with the other objects.
func TestCleanup_SaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const reader = "reader"
	meta := metav1.ObjectMeta{Name: reader + "-" + s.Namespace}
	must(t, s.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"list"}},
		{
			APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"patch"},
			ResourceNames: []string{"b"},
		},
	}}))
	must(t, s.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: meta.Name}},
	}))
	const own = "says-what-it-leaves" // The step handles all namespaces.
	for _, name := range []string{"a", "b", "c"} {
		s.Make(name, func(w *Widget) { w.Finalizers = []string{pipeline.Prefix + own} })
	}
	err := pipeline.Cleanup[*Widget](s.With(as(meta.Name)).Manager(), own).Run(t.Context())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "2 objects keep their finalizer") ||
		!strings.Contains(err.Error(), s.Namespace+"/a") {
		t.Errorf("got error %v, want Forbidden for 2 objects", err)
	}
	for name, left := range map[string]int{"a": 1, "b": 0, "c": 1} {
		testkit.Equal(t, len(s.Read(name).Finalizers), left, name, "finalizers")
	}
}

// as impersonates a user, who has the permissions that the test grants.
func as(user string) func(*rest.Config) {
	return func(c *rest.Config) { c.Impersonate.UserName = user }
}
