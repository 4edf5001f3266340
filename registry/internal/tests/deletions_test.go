// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// guarded is an API server and a Guard with the usual limits.
type guarded struct {
	*deletions.Guard
	config  *rest.Config
	outside client.Client // without the Guard
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	hub := fleettest.Cluster(t, "hub")
	return guarded{newGuard(), hub.Config(), fleettest.Client(t, hub)}
}

func newGuard() *deletions.Guard {
	return deletions.New(deletions.Options{
		Store:   deletions.MemoryStore{},
		Place:   func(state.ClusterName) (types.UID, int64, error) { return "", 0, nil },
		Module:  func(context.Context) string { return "pruner" },
		Silent:  func(state.ClusterName) bool { return false },
		Blind:   func(context.Context) string { return "" },
		Limits:  func(string, map[string]string) deletes.Limits { return deletes.Limits{} },
		Counted: func(string, state.ClusterName, deletes.EvidenceKind, int) {},
		Refused: func(string, state.ClusterName, deletes.Reason) {},
		Began:   func(ledger.Held, bool) {}, Ended: func(ledger.Held) {},
		Changed: func(state.ClusterName) {}, Now: time.Now,
	})
}

// in returns the client of the module for a target. answer changes the responses that the Guard gets; it may be nil.
func (g guarded) in(t *testing.T, target state.ClusterName, answer func(*http.Response)) client.Client {
	t.Helper()
	config := rest.CopyConfig(g.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return g.RoundTrip(deletions.Target{Name: target}, r, func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && answer != nil {
					answer(response)
				}
				return response, err
			})
		})
	})
	c, err := client.New(config, client.Options{})
	if err == nil { // Creates count from the first delete on.
		err = client.IgnoreNotFound(c.Delete(t.Context(), configMap(metav1.NamespaceDefault, -1)))
	}
	must(t, err)
	return c
}

func (g guarded) namespace(t *testing.T) string {
	t.Helper()
	return fleettest.Namespace(t, g.outside, "guarded-")
}

func create(t *testing.T, c client.Client, objects int, build func(i int) client.Object, options ...client.CreateOption) (all []client.Object) {
	t.Helper()
	for i := range objects {
		o := build(i)
		must(t, c.Create(t.Context(), o, options...))
		all = append(all, o)
	}
	return all
}

// deleteAll deletes objects by their names with the context, and returns how many deletes were not held.
func deleteAll(ctx context.Context, t *testing.T, c client.Client, all ...client.Object) (deleted int) {
	t.Helper()
	for _, o := range all {
		err := c.Delete(ctx, o)
		if err == nil {
			deleted++
		} else if !errors.Is(err, deletes.ErrHeld) {
			t.Fatalf("delete %s: %v", o.GetName(), err)
		}
	}
	return deleted
}

func claim(namespace string, i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c-%d", i), Finalizers: []string{"example.com/keep"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func configMap(namespace string, i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%d", i)}}
}

// New objects do not pay for old ones whose content is lost: in one cluster 3 PersistentVolumeClaims go, and in all clusters 10
// Namespaces.
func TestGuard_EmptyReplacements(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	namespace, module := g.namespace(t), g.in(t, "edge", nil)
	old := create(t, g.outside, 40, func(i int) client.Object { return claim(namespace, i) })
	create(t, module, 40, func(i int) client.Object { return claim(namespace, 100+i) })
	if n := deleteAll(t.Context(), t, module, old...); n != 3 {
		t.Errorf("%d of 40 PersistentVolumeClaims were deleted after 40 empty ones were created, want 3", n)
	}
	space := func(int) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "guarded-"}}
	}
	deleted := 0
	for i := range 5 {
		in := g.in(t, state.ClusterName(fmt.Sprintf("edge-%d", i)), nil)
		old := create(t, g.outside, 8, space)
		create(t, in, 8, space)
		deleted += deleteAll(t.Context(), t, in, old...)
	}
	if deleted != 10 {
		t.Errorf("%d of 40 Namespaces were deleted in five clusters, want 10", deleted)
	}
}

// What was created in a dry run pays for nothing.
func TestGuard_DryRunPaysNothing(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	namespace, module := g.namespace(t), g.in(t, "edge", nil)
	old := create(t, g.outside, 30, func(i int) client.Object { return configMap(namespace, i) })
	create(t, module, 20, func(i int) client.Object { return configMap(namespace, 100+i) }, client.DryRunAll)
	for i := range 20 {
		o := configMap(namespace, 200+i)
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		//nolint:staticcheck // The patch sends the object as it is.
		must(t, module.Patch(t.Context(), o, client.Apply, client.DryRunAll, client.FieldOwner("test")))
	}
	testkit.Equal(t, deleteAll(t.Context(), t, module, old...), 20, "objects were deleted after dry runs of creates")
}

// An object that its finalizers keep counts once, however often it is deleted by its name, and whatever the form of the answers.
func TestGuard_RepeatedByName(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	json := &unstructured.Unstructured{}
	json.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	for form, object := range map[state.ClusterName]client.Object{"protobuf": &corev1.PersistentVolumeClaim{}, "json": json} {
		namespace, module := g.namespace(t), g.in(t, form, nil)
		all := create(t, g.outside, 5, func(i int) client.Object { return claim(namespace, i) })
		kept := func() client.Object {
			o, _ := object.DeepCopyObject().(client.Object)
			o.SetNamespace(namespace)
			o.SetName("c-0")
			return o
		}
		for range 3 {
			if n := deleteAll(t.Context(), t, module, kept(), kept()); n != 2 {
				t.Fatalf("%s: a repeated delete is held", form)
			}
		}
		if n := deleteAll(t.Context(), t, module, all[1:]...); n != 2 {
			t.Errorf("%s: %d other claims were deleted, want 2", form, n)
		}
		if n := deleteAll(t.Context(), t, module, kept()); n != 1 {
			t.Errorf("%s: a repeated delete is held while others are", form)
		}
		if n := deleteAll(t.Context(), t, module, all[4]); n != 0 {
			t.Errorf("%s: another claim was deleted while deletes are held", form)
		}
	}
}

// A delete that the API server answers with 504 after it took effect counts, and its retry, which finds nothing, takes nothing back.
func TestGuard_FailedWithEffect(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	namespace, fails := g.namespace(t), false
	module := g.in(t, "edge", func(response *http.Response) {
		if fails && response.Request.Method == http.MethodDelete {
			response.StatusCode = http.StatusGatewayTimeout
		}
	})
	all := create(t, g.outside, 25, func(i int) client.Object { return configMap(namespace, i) })
	uid := all[1].GetUID()
	for i, exactly := range []client.Preconditions{{}, {UID: &uid}} {
		fails = true
		if err := module.Delete(t.Context(), all[i], exactly); err == nil || apierrors.IsNotFound(err) {
			t.Fatalf("delete %d: %v", i, err)
		}
		fails = false
		for range 3 {
			if err := module.Delete(t.Context(), all[i], exactly); !apierrors.IsNotFound(err) {
				t.Fatalf("the retry of delete %d: %v", i, err)
			}
		}
	}
	testkit.Equal(t, deleteAll(t.Context(), t, module, all[2:]...), 18, "objects were deleted after two with effect")
}

// A delete by name that the API server cannot answer, such as for a webhook, counts once, however often it is repeated.
func TestGuard_RepeatedFailure(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	namespace := g.namespace(t)
	module := g.in(t, "edge", func(response *http.Response) {
		if response.Request.Method == http.MethodDelete && strings.HasSuffix(response.Request.URL.Path, "/o-0") {
			response.StatusCode = http.StatusInternalServerError
		}
	})
	kept := configMap(namespace, 0)
	kept.Finalizers = []string{"example.com/keep"}
	create(t, g.outside, 1, func(int) client.Object { return kept })
	for range 10 {
		if err := module.Delete(t.Context(), configMap(namespace, 0)); !apierrors.IsInternalError(err) {
			t.Fatalf("got %v", err)
		}
	}
	all := create(t, g.outside, 25, func(i int) client.Object { return configMap(namespace, 1+i) })
	testkit.Equal(t, deleteAll(t.Context(), t, module, all...), 19, "other objects were deleted")
}

func binding(namespace, name string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
}

// The revocations of five tenants are no loss of one of them, and a tenant whose 30 marks are deleted holds no other tenant.
func TestGuard_Causes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	namespace, module := g.namespace(t), g.in(t, "edge", nil)
	owning := deletes.Owning(t.Context(), 5)
	for _, o := range create(t, g.outside, 5, func(i int) client.Object { return binding(namespace, fmt.Sprintf("tenant-%d", i)) }) {
		if deleteAll(deletes.CausedBy(owning, o.GetName()), t, module, o) != 1 {
			t.Errorf("the revocation of %s is held", o.GetName())
		}
	}
	forged := create(t, g.outside, 30, func(i int) client.Object { return binding(namespace, fmt.Sprintf("forged-%d", i)) })
	testkit.Equal(t, deleteAll(deletes.CausedBy(t.Context(), "mallory"), t, module, forged...), 20, "forged objects were deleted")
	if all := g.Holds(); len(all) != 1 || all[0].Cause != "mallory" || !strings.Contains(all[0].String(), "in cluster edge for mallory") {
		t.Errorf("the holds are %+v, want one that names its cause", all)
	}
	others := create(t, g.outside, 2, func(i int) client.Object { return binding(namespace, fmt.Sprintf("other-%d", i)) })
	if deleteAll(deletes.CausedBy(t.Context(), "other"), t, module, others[0]) != 1 || deleteAll(t.Context(), t, module, others[1]) != 1 {
		t.Error("the deletes of others are held, too")
	}
}
