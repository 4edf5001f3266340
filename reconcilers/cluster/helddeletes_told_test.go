// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// handedOut begins the names of the namespaces of these tests; other tests share the remote.
const handedOut = "handed-"

// handed is a module that does nothing but hand out its client.
func handed(to chan client.Client) registry.Module {
	return registry.NewModule("handed", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) { to <- p.Client })})
}

// objectIn returns an object in the remote, with no more than its name.
func objectIn(namespace string, i int, isSecret bool) client.Object {
	of := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("o-%03d", i)}
	if isSecret {
		return &corev1.Secret{ObjectMeta: of}
	}
	return &corev1.ConfigMap{ObjectMeta: of}
}

// exceed creates objects and deletes as many as the limit allows, and one more, which is held.
func exceed(t *testing.T, outside, module client.Client, namespace string, isSecret bool) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	testkit.Must(t, client.IgnoreAlreadyExists(outside.Create(t.Context(), ns)))
	const limit = 20
	for i := range limit {
		err := errors.Join(outside.Create(t.Context(), objectIn(namespace, i, isSecret)), module.Delete(t.Context(), objectIn(namespace, i, isSecret)))
		testkit.Must(t, err)
	}
	expectHeld(t, outside, module, objectIn(namespace, limit, isSecret))
}

// expectHeld creates an object, and fails the test unless its delete is held.
func expectHeld(t *testing.T, outside, module client.Client, one client.Object) {
	t.Helper()
	testkit.Must(t, outside.Create(t.Context(), one.DeepCopyObject().(client.Object)))
	if err := module.Delete(t.Context(), one); !deletes.IsHeld(err) {
		t.Fatalf("the delete beyond the limit: %v", err)
	}
}

// holdOf returns what the condition DeletesHeld says, or an empty condition.
func holdOf(c *hubv1.Cluster) metav1.Condition {
	if held := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionDeletesHeld); held != nil {
		return *held
	}
	return metav1.Condition{}
}

// A hold is told in one event. The numbers in the condition are brought up to date every five seconds, and not for each
// refused delete. A second hold has an event of its own.
func TestCluster_DeletesHeldIsToldOnce(t *testing.T) {
	t.Parallel()
	clients := make(chan client.Client, 2)
	h, traffic := newTrafficHub(t, func(o *hubOptions) { o.modules = []registry.Module{handed(clients)} })
	h.stop()
	h.options.registry.Holds = client.ObjectKey{Namespace: h.namespace, Name: cluster.HoldsName}
	h.start()
	t.Cleanup(func() { h.stop() })
	name, remote := h.name("a"), fleettest.Cluster(t, "one")
	outside, namespace := clientFor(t, remote), handedOut+h.namespace
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	module := <-clients

	exceed(t, outside, module, namespace, false)
	h.expect(name, hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonLimitExceeded)
	began, before := time.Now(), traffic.appliedOf(name)
	const rounds = 30
	for i := range rounds {
		expectHeld(t, outside, module, objectIn(namespace, 100+i, false))
		ensured := traffic.ensuredOf(name)
		h.change(name, func(c *hubv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "example.com/touched", fmt.Sprint(i))
		})
		h.eventually(func() error {
			if traffic.ensuredOf(name) == ensured {
				return errors.New("the Cluster was not reconciled")
			}
			return nil
		})
	}
	took := time.Since(began)
	// Some writes have other causes, such as the state of the app on a busy machine.
	if writes, most := traffic.appliedOf(name)-before, rounds/4+int(took/(5*time.Second)); writes > most {
		t.Errorf("%d reconciles of a growing hold within %s wrote the status %d times, want at most %d", rounds, took, writes, most)
	}
	h.eventually(func() error {
		if held := holdOf(h.get(name)); !strings.Contains(held.Message, fmt.Sprintf("at least %d more", rounds+1)) {
			return fmt.Errorf("the condition says %q", held.Message)
		}
		return nil
	})
	exceed(t, outside, module, namespace, true)
	h.eventually(func() error {
		if got := h.events(name)[hubv1.ReasonLimitExceeded]; got != 2 {
			return fmt.Errorf("%d events for two holds", got)
		}
		return nil
	})
}

// The holds in a remote end when its Cluster is removed, and the hub forgets them.
func TestCluster_DeletesHeldUntilRemoved(t *testing.T) {
	t.Parallel()
	clients := make(chan client.Client, 1)
	h := newIdleHub(t, func(o *hubOptions) { o.modules = []registry.Module{handed(clients)} })
	key := client.ObjectKey{Namespace: h.namespace, Name: cluster.HoldsName}
	h.options.registry.Holds = key
	h.start()
	t.Cleanup(func() { h.stop() })
	name, remote := h.name("a"), fleettest.Cluster(t, "one")
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	exceed(t, clientFor(t, remote), <-clients, handedOut+h.namespace, false)
	entries := func() int {
		t.Helper()
		var stored corev1.ConfigMap
		h.must(h.Get(t.Context(), key, &stored))
		return len(stored.Data)
	}
	if n := entries(); n != 1 {
		t.Fatalf("%d holds are stored, want 1", n)
	}
	h.remove(name)
	h.expectGone(name)
	h.eventually(func() error {
		if held := h.registry.HeldDeletes(); len(held) > 0 || entries() > 0 {
			return fmt.Errorf("%d entries for the holds %+v", entries(), held)
		}
		return nil
	})
}

// A hub that may not read its holds refuses deletes and says so in the condition, until it may.
func TestCluster_DeletesHeldWithoutPermission(t *testing.T) {
	t.Parallel()
	clients := make(chan client.Client, 1)
	h := newIdleHub(t, func(o *hubOptions) { o.modules = []registry.Module{handed(clients)} })
	h.options.registry.Holds = client.ObjectKey{Namespace: h.namespace, Name: cluster.HoldsName}
	var rules []rbacv1.PolicyRule
	for _, rule := range rights() {
		if len(rule.ResourceNames) == 0 || rule.ResourceNames[0] != cluster.HoldsName {
			rules = append(rules, rule)
		}
	}
	user := "before-upgrade-" + h.namespace
	credential, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: user, Rules: rules})
	h.must(err)
	h.run(credential.Config())
	t.Cleanup(func() { h.stop() })
	name, remote := h.name("a"), fleettest.Cluster(t, "one")
	outside, namespace := clientFor(t, remote), handedOut+h.namespace
	copies(t, outside, namespace, 1)
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	module := <-clients

	var held *deletes.HeldError
	one := objectIn(namespace, 0, false)
	if err := module.Delete(t.Context(), one); !errors.As(err, &held) || held.Reason != deletes.StoreUnavailable {
		t.Fatalf("a delete without the permission: %v", err)
	}
	c := h.expect(name, hubv1.ConditionDeletesHeld, metav1.ConditionTrue, hubv1.ReasonStoreUnavailable)
	if message := holdOf(c).Message; !strings.Contains(message, cluster.HoldsName) || !strings.Contains(message, "forbidden") {
		t.Errorf("the condition says %q", message)
	}
	h.expectEvent(name, hubv1.ReasonStoreUnavailable)
	h.expectReady(name)

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user + "-holds"}, Rules: cluster.CredentialsRules()}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	h.must(errors.Join(h.Create(t.Context(), role), h.Create(t.Context(), binding)))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = h.Delete(ctx, binding), h.Delete(ctx, role)
	})
	h.eventually(func() error {
		if held := holdOf(h.get(name)); held.Status != "" {
			return fmt.Errorf("the condition says %q", held.Message)
		}
		return module.Delete(t.Context(), one)
	})
	if got := countIn(t, outside, namespace); got != 0 {
		t.Errorf("%d objects are left, want 0", got)
	}
}
