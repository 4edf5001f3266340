// SPDX-License-Identifier: Apache-2.0

package hubobjects_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/rbac"
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

// everywhere is a module that copies the ConfigMaps of the hub with a label into every remote.
func everywhere() registry.Module {
	return registry.NewModule("everywhere", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			configs, err := p.HubObjects.Watch(hubobjects.Selection{
				Object: &corev1.ConfigMap{}, Route: hubobjects.All(),
				Labels: labels.SelectorFromSet(labels.Set{"to": "everywhere"}),
			})
			if err != nil {
				return err
			}
			return registry.ControllerManagedBy(p.Manager).Named("everywhere").
				WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
		}),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"},
		}},
		HubRules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"},
		}},
	})
}

// An object of a selection with the route All is copied into every remote, also into one that is registered later, and goes with
// the object.
func TestHub_All(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a", "b"), hubtest.Modules(everywhere()))
	shared := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "shared", Labels: map[string]string{"to": "everywhere"},
		}}
	}
	hub.Create(shared())
	remotes := []*hubtest.Remote{hub.Remote("a"), hub.Remote("b"), hub.AddRemote("c")}
	for _, r := range remotes {
		r.WaitFor(shared(), func() error { return nil })
	}
	hub.Delete(shared())
	for _, r := range remotes {
		r.WaitGone(shared())
	}
}

// mirrored is the configuration of the module mirror: the namespace of the hub whose ConfigMaps it copies.
type mirrored struct {
	From string `json:"from"`
}

// mirror is a module that copies the ConfigMaps of a namespace of the hub into every remote. Its permissions follow from its
// configuration, so that its app fails where it watches something else.
func mirror(rules func(mirrored) registry.ConfigRules) registry.Module {
	return registry.NewModule("mirror", registry.ModuleOptions{
		Config:  registry.ConfigOf(func() mirrored { return mirrored{From: "default"} }),
		RulesOf: registry.RulesOf(rules),
		Remote: fx.Invoke(func(p registry.Remote, c mirrored) error {
			configs, err := p.HubObjects.Watch(hubobjects.Selection{
				Object: &corev1.ConfigMap{}, Route: hubobjects.All(), Namespaces: []string{c.From},
				Labels: labels.SelectorFromSet(labels.Set{"to": "everywhere"}),
			})
			if err != nil {
				return err
			}
			return registry.ControllerManagedBy(p.Manager).Named("mirror").
				WatchesRawSource(configs.Requests()).Complete(&copier{hub: configs, remote: p.Client})
		}),
	})
}

// rules returns the permissions of the module mirror.
func (c mirrored) rules() registry.ConfigRules {
	on := func(verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}
	}
	return registry.ConfigRules{
		Remote: on("get", "list", "watch", "create", "update", "delete"),
		Hub:    []rbac.NamespacedRules{{Namespace: c.From, Rules: on("get", "list", "watch")}},
	}
}

// A hub with the permissions that follow from the configuration, and no others, copies from the namespaces that the
// configuration names for each remote. Authorized names a permission in a remote that only the configuration requires. The
// app of a module whose permissions are those of another configuration fails, and says so.
func TestHub_ConfigRules(t *testing.T) {
	t.Parallel()
	const config = `
config: {from: platform}
overrides:
- selector:
    matchLabels: {tier: edge}
  config: {from: edges}
`
	in := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"to": "everywhere"},
		}}
	}
	edge := func(c *hubv1.Cluster) { c.Labels = map[string]string{"tier": "edge"} }
	expect := func(hub *hubtest.Hub, condition, text string) {
		hub.Eventually(func() error {
			found := meta.FindStatusCondition(hub.Remote("core").Cluster().Status.Conditions, condition)
			if found == nil || found.Status != metav1.ConditionFalse || !strings.Contains(found.Message, text) {
				return fmt.Errorf("the condition %s is %+v", condition, found)
			}
			return nil
		})
	}
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New(t, hubtest.Remotes("core"), hubtest.Modules(mirror(mirrored.rules)), hubtest.ModuleConfig("mirror", config),
			hubtest.DeclaredHubRights())
		other := hub.AddRemote("edge", edge)
		for _, namespace := range []string{"platform", "edges"} {
			hub.Create(in(namespace, "of-"+namespace))
		}
		for remote, name := range map[*hubtest.Remote]string{hub.Remote("core"): "of-platform", other: "of-edges"} {
			remote.WaitFor(in("default", name), func() error { return nil })
		}
	})
	t.Run("not granted", func(t *testing.T) {
		t.Parallel()
		hub := hubtest.New(t, hubtest.Modules(mirror(mirrored.rules)), hubtest.ModuleConfig("mirror", config),
			hubtest.DeclaredHubRights(), hubtest.Rules(rbac.RemoteRules[registry.Module]()...))
		hub.AddRemote("core")
		expect(hub, hubv1.ConditionAuthorized, "module mirror: get configmaps, list configmaps, watch configmaps, create configmaps")
	})
	t.Run("of another configuration", func(t *testing.T) {
		t.Parallel()
		wrong := func(mirrored) registry.ConfigRules { return mirrored{From: "default"}.rules() }
		hub := hubtest.New(t, hubtest.Modules(mirror(wrong)), hubtest.ModuleConfig("mirror", config))
		hub.AddRemote("core")
		expect(hub, hubv1.ConditionReady, "module mirror does not declare the permission to get, list and watch configmaps in platform in the hub")
	})
}

func labeled(name, to string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{cluster: to, "of": "copies"}}
}

// In a whole hub, with the permissions that hub rbac prints, objects of the hub come and go in the remote that they name,
// also after a restart of the hub. Nothing of the namespace of the credentials is seen, and no goroutine is left when a remote
// has gone.
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
