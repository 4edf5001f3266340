// SPDX-License-Identifier: Apache-2.0

package hubobjects_test

import (
	"fmt"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

const cluster = "example.com/cluster"

// copies is a module that copies the ConfigMaps of the hub.
func copies() registry.Module {
	reads := []string{"get", "list", "watch"}
	return registry.NewModule("copies", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			configs, err := p.HubObjects.Watch(hubobjects.Selection{
				Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel(cluster),
			}, string(p.Name))
			if err != nil {
				return err
			}
			return registry.ControllerManagedBy(p.Manager).Named("copies").
				WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
		}),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: append(reads, "create", "update", "delete"),
		}},
		HubRules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: reads}},
		HubNamespaces: []string{"default"},
	})
}

func labeled(name, to string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{cluster: to}}, Data: map[string]string{"for": to},
	}
}

// In a whole hub, with the permissions that hub rbac prints, objects of the hub are copied into the remote that they name, follow their
// label, and are deleted with the object: a delete that was seen is declared, so 29 of them pass the limit of 20. So it is after a restart
// of the hub, and no goroutine is left when a remote has gone.
func TestHub(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(copies()), hubtest.DeclaredHubRights())
	a, b := hub.Remote("a"), hub.Remote("b")
	copied := func(r *hubtest.Remote, name string) {
		t.Helper()
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		r.WaitFor(made, func() error {
			if made.Data["for"] != r.Name() {
				return fmt.Errorf("for %q", made.Data["for"])
			}
			return nil
		})
	}
	name := func(i int) string { return fmt.Sprintf("config-%d", i) }
	for i := range 30 {
		hub.Create(labeled(name(i), "a"))
	}
	for i := range 30 {
		copied(a, name(i))
	}
	testkit.Must(t, hub.Client().Update(t.Context(), labeled(name(0), "b")))
	copied(b, name(0))
	a.WaitGone(labeled(name(0), ""))
	for i := range 29 {
		hub.Delete(labeled(name(i+1), ""))
	}
	for i := range 29 {
		a.WaitGone(labeled(name(i+1), ""))
	}

	hub.Restart()
	hub.Create(labeled("later", "b"))
	copied(b, "later")
	c := hub.AddRemote("c")
	c.WaitReady()
	c.Deregister() // A hub starts some goroutines when they are first needed.
	before := hub.Baseline()
	c.Register()
	c.WaitReady()
	c.Deregister()
	before.Wait()
}
