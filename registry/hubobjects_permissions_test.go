// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A module watches only what it declares, and nothing in the namespace of the credentials.
func TestHubObjects_Refused(t *testing.T) {
	t.Parallel()
	const credentials = "kube-public"
	apps := make(chan registry.Remote, 1)
	rules := append([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list"}},
	}, watchesConfigMaps...)
	start := func(namespaces ...string) registry.Remote {
		r := newRegistry(t, func(o *registry.Options) {
			o.CredentialsNamespace = credentials
			o.Modules = []registry.Module{registry.NewModule("watcher", registry.ModuleOptions{
				HubRules: rules, HubNamespaces: namespaces, Remote: fx.Invoke(func(p registry.Remote) { apps <- p }),
			})}
		})
		_, config := remote(t, "one")
		spawn(t, r, "one", config)
		return <-apps
	}
	everywhere, limited := start(), start("default", credentials)
	for what, c := range map[string]struct {
		app        registry.Remote
		of         client.Object
		namespaces []string
		text       string // of the error; empty for none
	}{
		"declared":                 {everywhere, &corev1.ConfigMap{}, nil, ""},
		"undeclared":               {everywhere, &corev1.Pod{}, nil, "watcher does not declare the permission to get, list and watch pods in the hub"},
		"undeclared watch":         {everywhere, &corev1.Service{}, nil, "watch services"},
		"credentials":              {everywhere, &corev1.ConfigMap{}, []string{credentials}, "namespace of the credentials"},
		"limited":                  {limited, &corev1.ConfigMap{}, nil, ""},
		"limited, other namespace": {limited, &corev1.ConfigMap{}, []string{"kube-system"}, "configmaps in kube-system"},
	} {
		_, err := c.app.HubObjects.Watch(hubobjects.Selection{Object: c.of, Namespaces: c.namespaces, Route: hubobjects.ByName()}, "x")
		if (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %q", what, err, c.text)
		}
	}
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
	eventually(t, func() error { // client-go retries after up to a minute.
		if info, _ := r.Status("one"); info.State != state.StateReady {
			return fmt.Errorf("the app is %+v", info.App)
		}
		return nil
	})
}
