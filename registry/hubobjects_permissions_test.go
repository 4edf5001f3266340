// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module watches only what it declares, Secrets only with a label, and nothing in the namespace of the credentials.
func TestHubObjects_Refused(t *testing.T) {
	t.Parallel()
	const credentials = "kube-public"
	apps := make(chan registry.Remote, 1)
	give := func(p registry.Remote) { apps <- p }
	rules := append([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets", "namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list"}},
	}, watchesConfigMaps...)
	start := func(namespace string, o registry.ModuleOptions) registry.Remote {
		o.Remote = fx.Invoke(give)
		r := newRegistry(t, func(options *registry.Options) {
			options.Modules = []registry.Module{registry.NewModule("watcher", o)}
			options.CredentialsNamespace = namespace
		})
		_, config := remote(t, "one")
		spawn(t, r, "one", config)
		return <-apps
	}
	everywhere := start(credentials, registry.ModuleOptions{HubRules: rules})
	limited := start(credentials, registry.ModuleOptions{HubRules: rules, HubNamespaces: []string{"default", credentials}})
	unknown := start("", registry.ModuleOptions{HubRules: rules})
	labeled := unique("refused")
	label := labels.SelectorFromSet(labels.Set{"of": labeled})
	for _, namespace := range []string{credentials, "default"} {
		newSecret(t, client.ObjectKey{Namespace: namespace, Name: labeled}, label.String())
	}
	without, err := labels.Parse("!of, other!=x, another notin (y)")
	must(t, err)
	name := hubobjects.ByName()
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	for what, c := range map[string]struct {
		app  registry.Remote
		of   hubobjects.Selection
		keys []string
		text string // of the error; empty for none
	}{
		"no object":                 {everywhere, hubobjects.Selection{Route: name}, []string{"x"}, "no Object"},
		"nil object":                {everywhere, hubobjects.Selection{Object: (*corev1.Pod)(nil), Route: name}, []string{"x"}, "no Object"},
		"no route":                  {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}}, []string{"x"}, "no Route"},
		"route without a label":     {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: hubobjects.ByLabel("")}, []string{"x"}, "no label"},
		"no keys":                   {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name}, nil, "no keys"},
		"empty key":                 {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name}, []string{""}, "no keys"},
		"undeclared":                {everywhere, hubobjects.Selection{Object: &corev1.Pod{}, Route: name}, []string{"x"}, "watcher does not declare the permission to get, list and watch pods in the hub"},
		"undeclared watch":          {everywhere, hubobjects.Selection{Object: &corev1.Service{}, Route: name}, []string{"x"}, "watch services"},
		"no namespaces":             {everywhere, hubobjects.Selection{Object: &corev1.Namespace{}, Route: hubobjects.ByNamespace()}, []string{"x"}, "no namespaces"},
		"cluster-scoped":            {everywhere, hubobjects.Selection{Object: &corev1.Namespace{}, Route: name}, []string{"x"}, ""},
		"all Secrets":               {everywhere, hubobjects.Selection{Object: &corev1.Secret{}, Route: name}, []string{"x"}, "Secrets requires Labels"},
		"metadata of all Secrets":   {everywhere, hubobjects.Selection{Object: metadata, Route: name}, []string{"x"}, "Secrets requires Labels"},
		"Secrets without a label":   {everywhere, hubobjects.Selection{Object: &corev1.Secret{}, Route: name, Labels: without}, []string{"x"}, "Secrets requires Labels"},
		"Secrets and nothing":       {everywhere, hubobjects.Selection{Object: &corev1.Secret{}, Route: name, Labels: labels.Nothing()}, []string{"x"}, "select nothing"},
		"nothing":                   {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name, Labels: labels.Nothing()}, []string{"x"}, "select nothing"},
		"Secrets with a label":      {everywhere, hubobjects.Selection{Object: &corev1.Secret{}, Route: name, Labels: label}, []string{labeled}, ""},
		"namespace without a name":  {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name, Namespaces: []string{""}}, []string{"x"}, "without a name"},
		"credentials":               {everywhere, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name, Namespaces: []string{credentials}}, []string{"x"}, "namespace of the credentials"},
		"limited":                   {limited, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name}, []string{"x"}, ""},
		"limited, other namespace":  {limited, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name, Namespaces: []string{"kube-system"}}, []string{"x"}, "configmaps in kube-system"},
		"limited, credentials":      {limited, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name, Namespaces: []string{credentials}}, []string{"x"}, "namespace of the credentials"},
		"unknown credentials":       {unknown, hubobjects.Selection{Object: &corev1.Secret{}, Route: name, Labels: label}, []string{"x"}, "CredentialsNamespace"},
		"unknown credentials, open": {unknown, hubobjects.Selection{Object: &corev1.ConfigMap{}, Route: name}, []string{"x"}, ""},
	} {
		watched, err := c.app.HubObjects.Watch(c.of, c.keys...)
		if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", what, err, c.text)
		}
		if what != "Secrets with a label" || err != nil {
			continue
		}
		var all corev1.SecretList
		if err := watched.List(t.Context(), &all); err != nil || len(all.Items) != 1 || all.Items[0].Namespace != "default" {
			t.Errorf("%s: got %v, %+v, want the Secret in default alone", what, err, all.Items)
		}
	}
}

// newSecret creates a Secret of the hub with a label, "key=value", until the end of the test.
func newSecret(t *testing.T, key client.ObjectKey, label string) {
	t.Helper()
	parsed, err := labels.ConvertSelectorToLabelsMap(label)
	must(t, err)
	hub := clientFor(t, fleettest.Cluster(t, "hub"))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: parsed}}
	must(t, hub.Create(t.Context(), secret))
	t.Cleanup(func() {
		if err := hub.Delete(context.WithoutCancel(t.Context()), secret); err != nil {
			t.Error(err)
		}
	})
}

// A hub that lacks a permission which a module declares shows that in the status of the app, which starts when the permission is
// granted.
func TestHubObjects_Denied(t *testing.T) {
	t.Parallel()
	cluster, poor := fleettest.Cluster(t, "hub"), unique("poor-hub")
	minted, err := cluster.MintCertificate(t.Context(), fleet.User{Name: poor})
	must(t, err)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Hub = []registry.Module{copier{test: "denied"}.module()}, minted.Config()
	})
	_, config := remote(t, "one")
	must(t, r.Ensure("one", config))
	eventually(t, func() error {
		const want = "the hub lacks the permission to list and watch ConfigMap in its own cluster"
		if info, _ := r.Status("one"); info.App.Reason != state.ReasonForbidden || !strings.Contains(info.App.Message, want) {
			return fmt.Errorf("the app is %+v", info.App)
		}
		return nil
	})
	testkit.Must(t, testkit.Err(cluster.MintCertificate(t.Context(), fleet.User{Name: poor, Rules: watchesConfigMaps})))
	expectWithin(t, 3*time.Minute, func() error { // client-go retries after up to a minute.
		if info, _ := r.Status("one"); info.State != state.StateReady {
			return fmt.Errorf("the app is %+v", info.App)
		}
		return nil
	})
}
