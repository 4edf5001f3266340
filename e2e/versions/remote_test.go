// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const shop = "shop"

// remote is a remote of a hub.
type remote struct {
	*fleet.Cluster
	hub        *hub
	admin      client.WithWatch
	kubeconfig string
	version    string
}

func (h *hub) newRemote(cluster *fleet.Cluster, version string) *remote {
	h.t.Helper()
	r := &remote{
		Cluster: cluster, hub: h, version: version, admin: fleettest.Client(h.t, cluster),
		kubeconfig: testkit.File(h.t, cluster.Name()+".kubeconfig", cluster.Kubeconfig()),
	}
	must(h.t, r.admin.Create(h.t.Context(), namespace(shop)))
	return r
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// orderKind is a kind that the remotes do not know.
func orderKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Order"}
}

func order(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(orderKind())
	o.SetNamespace(namespace)
	o.SetName("tea")
	return o
}

// originals creates what the rules read in the hub.
func (h *hub) originals(names ...string) {
	h.t.Helper()
	must(h.t, h.admin.Create(h.t.Context(), fleettest.CRD(h.t, orderKind(), "")))
	must(h.t, h.admin.Create(h.t.Context(), namespace(shop)))
	for _, name := range names {
		must(h.t, h.admin.Create(h.t.Context(), namespace("orders-"+name)))
		must(h.t, soon(h.t.Context(), func() error { return client.IgnoreAlreadyExists(h.admin.Create(h.t.Context(), order("orders-"+name))) }))
	}
	for i := range volumes {
		must(h.t, h.admin.Create(h.t.Context(), volume(i)))
	}
}

// volumes are more than a module may delete without evidence. What it creates does not count against deletes of this kind.
const volumes = 6

func volume(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: fmt.Sprintf("volume-%d", i), Labels: map[string]string{"sync": "everywhere"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("none"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// volumes waits until the remote has a copy of each.
func (r *remote) volumes() error {
	return soon(r.hub.t.Context(), func() error {
		var found corev1.PersistentVolumeClaimList
		if err := r.admin.List(r.hub.t.Context(), &found, client.InNamespace(shop)); err != nil {
			return err
		}
		if len(found.Items) != volumes {
			return fmt.Errorf("there are %d volumes", len(found.Items))
		}
		return nil
	})
}

func (r *remote) register() error {
	_, err := r.hub.command("register", r.Name(), "--cluster-kubeconfig", r.kubeconfig, "--cluster-context", r.Name(), "--config", r.hub.config, "--yes")
	if err == nil {
		err = r.grant()
	}
	if err != nil {
		return err
	}
	one, err := r.hub.condition(r.Name(), hubv1.ConditionReachable, hubv1.ReasonProbeSucceeded)
	if err == nil && one.Status.Version != r.version {
		err = fmt.Errorf("the status has version %s", one.Status.Version)
	}
	return err
}

// grant does what the owner of the remote and the controller of aggregated roles do, which does not run here.
func (r *remote) grant() error {
	roles, err := r.hub.command("rbac", "--in", "remote", "--rules", testkit.File(r.hub.t, "rules.yaml", syncRules))
	if err != nil {
		return err
	}
	return inText(roles, func(role *unstructured.Unstructured) error {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.GetName()}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "clusterfx-" + r.Name()}},
		}
		ctx := r.hub.t.Context()
		return errors.Join(client.IgnoreAlreadyExists(r.admin.Create(ctx, role)), client.IgnoreAlreadyExists(r.admin.Create(ctx, binding)))
	})
}

func (r *remote) rotate() error {
	_, err := r.hub.command("rotate", r.Name(), "--cluster-kubeconfig", r.kubeconfig, "--cluster-context", r.Name())
	return err
}

func (r *remote) check() error {
	_, err := r.hub.command("check", r.Name(), "--allow-cidr", "127.0.0.0/8", "--config", r.hub.config)
	return err
}

// copied waits for the CRD that the hub brings and the copy of the Order, with a value.
func (r *remote) copied(value string) error {
	return soon(r.hub.t.Context(), func() error {
		one := order(shop)
		if err := r.admin.Get(r.hub.t.Context(), client.ObjectKeyFromObject(one), one); err != nil {
			return err
		}
		if found, _, _ := unstructured.NestedString(one.Object, "spec", "item"); found != value {
			return fmt.Errorf("the copy has item %q, want %q", found, value)
		}
		return nil
	})
}

// order changes the original.
func (r *remote) order(value string) error {
	one := order("orders-" + r.Name())
	return r.hub.admin.Patch(r.hub.t.Context(), one, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"item":"`+value+`"}}`)))
}

func (r *remote) sync() error {
	if err := r.order("green"); err != nil {
		return err
	}
	return r.copied("green")
}

// status writes the status of the copy, and waits until the original has it.
func (r *remote) status() error {
	const patch = `{"status":{"phase":"Brewed"}}`
	if err := r.admin.Status().Patch(r.hub.t.Context(), order(shop), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return err
	}
	return soon(r.hub.t.Context(), func() error {
		one := order("orders-" + r.Name())
		if err := r.hub.admin.Get(r.hub.t.Context(), client.ObjectKeyFromObject(one), one); err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(one.Object, "status", "phase"); phase != "Brewed" {
			return fmt.Errorf("the original has phase %q", phase)
		}
		return nil
	})
}

func (r *remote) tenant() error {
	return soon(r.hub.t.Context(), func() error {
		quota := &corev1.ResourceQuota{}
		return r.admin.Get(r.hub.t.Context(), client.ObjectKey{Namespace: "tenant-acme", Name: "tenant"}, quota)
	})
}

// guarded waits until deletes without evidence are held, and some copies are still there.
func (r *remote) guarded() error {
	return soon(r.hub.t.Context(), func() error {
		if _, err := r.hub.condition(r.Name(), hubv1.ConditionDeletesHeld); err != nil {
			return err
		}
		var left corev1.PersistentVolumeClaimList
		if err := r.admin.List(r.hub.t.Context(), &left, client.InNamespace(shop)); err != nil {
			return err
		}
		if !slices.ContainsFunc(left.Items, func(one corev1.PersistentVolumeClaim) bool { return one.DeletionTimestamp.IsZero() }) {
			return errors.New("no copy is left")
		}
		return nil
	})
}

// each calls a function for all remotes at once, and returns what failed.
func each(t *testing.T, remotes []*remote, f func(*remote) error) map[*remote]error {
	t.Helper()
	errs := make([]error, len(remotes))
	done := make(chan struct{})
	for i, r := range remotes {
		go func() { errs[i] = f(r); done <- struct{}{} }()
	}
	for range remotes {
		<-done
	}
	failed := map[*remote]error{}
	for i, r := range remotes {
		if errs[i] != nil {
			failed[r] = errs[i]
		}
	}
	return failed
}
