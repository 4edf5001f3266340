// SPDX-License-Identifier: Apache-2.0

package hubobjects_test

import (
	"fmt"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

const cluster = "example.com/cluster"

// copies is a module that copies the ConfigMaps of the hub and watches the metadata of Secrets.
func copies(secrets chan<- *hubobjects.Objects) registry.Module {
	reads := []string{"get", "list", "watch"}
	return registry.NewModule("copies", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			configs, err := p.HubObjects.Watch(hubobjects.Selection{
				Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel(cluster),
			}, string(p.Name))
			if err != nil {
				return err
			}
			found, err := p.HubObjects.Watch(hubobjects.Selection{
				Object: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}},
				Labels: labels.SelectorFromSet(labels.Set{"of": "copies"}), Route: hubobjects.ByLabel(cluster),
			}, "shared")
			if err != nil {
				return err
			}
			select {
			case secrets <- found:
			default:
			}
			return registry.ControllerManagedBy(p.Manager).Named("copies").
				WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
		}),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: append(reads, "create", "update", "delete"),
		}},
		HubRules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: reads}},
		// The namespace of the credentials is among them, and left out.
		HubNamespaces: []string{"default", hubv1.DefaultNamespace},
	})
}

func labeled(name, to string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{cluster: to, "of": "copies"}}
}

// In a whole hub, with the permissions that hub rbac prints, objects of the hub come and go in the remote that they name, also after a
// restart of the hub. Nothing of the namespace of the credentials is seen, and no goroutine is left when a remote has gone.
func TestHub(t *testing.T) {
	t.Parallel()
	secrets := make(chan *hubobjects.Objects, 1)
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(copies(secrets)), hubtest.DeclaredHubRights())
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
	for _, name := range []string{"a", "b"} {
		hub.Create(&corev1.ConfigMap{ObjectMeta: labeled("config-"+name, name), Data: map[string]string{"for": name}})
	}
	copied(a, "config-a")
	copied(b, "config-b")

	hidden := &corev1.Secret{ObjectMeta: labeled("hidden", "shared")}
	hidden.Namespace = hubv1.DefaultNamespace
	hub.Create(hidden)
	hub.Create(&corev1.Secret{ObjectMeta: labeled("seen", "shared")}) // A watch reports it after the other.
	watched := <-secrets
	hub.Eventually(func() error {
		all := &metav1.PartialObjectMetadataList{}
		if err := watched.List(t.Context(), all); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Name != "seen" {
			return fmt.Errorf("got %d Secrets: %+v", len(all.Items), all.Items)
		}
		return nil
	})

	hub.Delete(&corev1.ConfigMap{ObjectMeta: labeled("config-b", "b")})
	b.WaitGone(&corev1.ConfigMap{ObjectMeta: labeled("config-b", "b")})

	hub.Restart()
	hub.Create(&corev1.ConfigMap{ObjectMeta: labeled("later", "b"), Data: map[string]string{"for": "b"}})
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
