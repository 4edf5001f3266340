// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

// A selection is what the view of the hub delivers.
func TestHubSelection_Selects(t *testing.T) {
	t.Parallel()
	obj := func(namespace, cluster, tier string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", Labels: map[string]string{"cluster": cluster, "tier": tier}}}
	}
	s := side.HubSelection{
		Labels: labels.SelectorFromSet(labels.Set{"tier": "edge"}), Namespaces: []string{"shop"},
		Route: hubobjects.ByLabel("cluster"), Keys: []string{"one"},
	}
	for what, c := range map[string]struct {
		selection side.HubSelection
		obj       *corev1.ConfigMap
		want      bool
	}{
		"all of it":                {s, obj("shop", "one", "edge"), true},
		"another namespace":        {s, obj("bank", "one", "edge"), false},
		"other labels":             {s, obj("shop", "one", "core"), false},
		"for another remote":       {s, obj("shop", "two", "edge"), false},
		"the zero selection":       {side.HubSelection{}, obj("bank", "two", "core"), true},
		"the route to all remotes": {side.HubSelection{Route: hubobjects.All()}, obj("bank", "two", "core"), true},
	} {
		testkit.Equal(t, side.OfHub(registry.Remote{}, c.selection).Selects(c.obj), c.want, what)
	}
}
