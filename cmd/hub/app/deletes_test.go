// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// tidyNamespace is the namespace whose objects tidy modules delete.
const tidyNamespace = "tidied"

// tidy returns a module that deletes each object of a kind in a namespace, and tries again soon when that is held.
func tidy(name, resource string, object func() client.Object, limits deletes.Limits) registry.Module {
	return registry.NewModule(name, registry.ModuleOptions{
		Deletes: limits,
		Rules:   []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch", "delete"}}},
		Remote: fx.Invoke(func(p registry.Remote) error {
			return registry.ControllerManagedBy(p.Manager).Named(name).For(object()).Complete(reconcile.Func(
				func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
					if r.Namespace != tidyNamespace {
						return ctrl.Result{}, nil
					}
					one := object()
					err := p.Client.Get(ctx, r.NamespacedName, one)
					if err == nil {
						err = p.Client.Delete(ctx, one)
					}
					if deletes.IsHeld(err) {
						return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil
					}
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}))
		}),
	})
}

// listed is a hold as "hub deletes ls -o json" prints it.
type listed struct {
	Metadata struct{ Name string }
	Cluster  string
	Fleet    bool
	Deleted  int
	Waiting  int
	Allowed  int
}

// heldBy returns the hold of a module, once one is listed.
func (h *hub) heldBy(module string) (found listed) {
	h.t.Helper()
	eventually(h.t, func() error {
		var list struct {
			Items []struct {
				listed
				Module string
			}
		}
		if err := json.Unmarshal([]byte(h.output("deletes", "ls", "-o", "json")), &list); err != nil {
			return err
		}
		for _, one := range list.Items {
			if one.Module == module {
				found = one.listed
				return nil
			}
		}
		return fmt.Errorf("there is no hold of %s in %+v", module, list)
	})
	return found
}

// An operator sees the deletes that a hub with the printed permissions holds, in one cluster and in all of them, and allows
// some, some more, and the others.
func TestDeletes_AllowedByOperator(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	user, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: "held"})
	h.must(err)
	grant(t, h.Client, "held", h.roles("--in=hub"))
	remote := fleettest.Cluster(t, "remote")
	outside := clientFor(t, remote)
	h.must(client.IgnoreAlreadyExists(outside.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tidyNamespace}})))
	for i := range 45 {
		of := metav1.ObjectMeta{Namespace: tidyNamespace, Name: fmt.Sprintf("o-%02d", i)}
		h.must(outside.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: of}))
		if i < 8 {
			h.must(outside.Create(t.Context(), &corev1.Secret{ObjectMeta: of}))
		}
	}
	o := h.options(
		tidy("tidymaps", "configmaps", func() client.Object { return &corev1.ConfigMap{} }, deletes.Limits{}),
		tidy("tidysecrets", "secrets", func() client.Object { return &corev1.Secret{} }, deletes.Limits{PerFleet: 3}),
	)
	o.Config, o.Election = user.Config(), fast()
	h.run(o)
	h.register("tidied", remote.Kubeconfig())
	allow := func(args ...string) {
		t.Log(strings.TrimSpace(h.output(append([]string{"deletes", "allow"}, args...)...)))
	}
	left := func(list client.ObjectList, want int) {
		t.Helper()
		eventually(t, func() error {
			h.must(outside.List(t.Context(), list, client.InNamespace(tidyNamespace)))
			got := 0
			switch list := list.(type) {
			case *corev1.ConfigMapList:
				got = len(list.Items)
			case *corev1.SecretList:
				got = len(list.Items)
			}
			if got != want {
				return fmt.Errorf("%d objects are left, want %d: %s", got, want, h.output("deletes", "ls", "-o", "wide"))
			}
			return nil
		})
	}
	one, all := h.heldBy("tidymaps"), h.heldBy("tidysecrets")
	if one.Cluster != "tidied" || one.Fleet || one.Deleted != 20 || !all.Fleet || all.Deleted != 3 {
		t.Errorf("the holds are %+v and %+v", one, all)
	}
	eventually(t, func() error {
		shown := h.output("get", "clusters", "--status-selector", "deletesheld=true,ready=true", "-o", "name") + h.output("describe", "tidied")
		for _, text := range []string{"cluster.clusterfx.dev/tidied", "warning: DeletesHeld", one.Metadata.Name, all.Metadata.Name} {
			if !strings.Contains(shown, text) {
				return fmt.Errorf("%q is not in %s", text, shown)
			}
		}
		return nil
	})
	left(&corev1.ConfigMapList{}, 25)
	allow(one.Metadata.Name, "--at-most", "5")
	left(&corev1.ConfigMapList{}, 20)
	allow(one.Metadata.Name, "--at-most", "5")
	left(&corev1.ConfigMapList{}, 15)
	eventually(t, func() error { // The upkeep brings the numbers up to date.
		if now := h.heldBy("tidymaps"); now.Waiting != 15 || now.Allowed != 10 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	allow(one.Metadata.Name)
	left(&corev1.ConfigMapList{}, 0)

	left(&corev1.SecretList{}, 5)
	allow(all.Metadata.Name, "--at-most", "2")
	left(&corev1.SecretList{}, 3)
	allow(all.Metadata.Name, "--at-most", "3")
	left(&corev1.SecretList{}, 0)
}
