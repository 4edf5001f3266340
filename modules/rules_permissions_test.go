// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// lines returns permissions as text, one for each rule.
func lines(namespace string, all []rbacv1.PolicyRule) []string {
	var text []string
	for _, r := range all {
		text = append(text, strings.TrimSpace(fmt.Sprintf("%s %s/%s: %s", namespace,
			strings.Join(r.APIGroups, ","), strings.Join(r.Resources, ","), strings.Join(r.Verbs, " "))))
	}
	return text
}

// A rule needs exactly these permissions.
func TestPermissions(t *testing.T) {
	t.Parallel()
	const reads, copies = "get list watch", "get list watch create patch delete"
	for name, c := range map[string]struct {
		rule        []string
		remote, hub []string
	}{
		"from the hub": {
			remote: []string{"/configmaps: " + copies},
			hub:    []string{"source /configmaps: " + reads, "source events.k8s.io/events: create"},
		},
		"observe": {
			rule:   []string{"mode: Observe"},
			remote: []string{"/configmaps: " + reads},
			hub:    []string{"source /configmaps: " + reads, "source events.k8s.io/events: create"},
		},
		"one-to-one": {
			rule:   []string{`namespaces: {template: "tenant-{{cluster}}"}`, "status: Return", "onTargetDeletion: Propagate"},
			remote: []string{"/configmaps: " + copies},
			hub: []string{
				"/configmaps: " + reads + " patch delete", "/configmaps/status: patch", "events.k8s.io/events: create",
			},
		},
		"custom resources": {
			rule:   []string{"kind: {apiVersion: example.com/v1, kind: Policy}", "namespaces: {selector: {}}", "bringCRD: IfAbsent"},
			remote: []string{"example.com/policies: " + copies, "apiextensions.k8s.io/customresourcedefinitions: get create"},
			hub: []string{
				"example.com/policies: " + reads, "events.k8s.io/events: create",
				"apiextensions.k8s.io/customresourcedefinitions: get", "/namespaces: " + reads,
			},
		},
		"without namespaces": {
			rule:   []string{"kind: {apiVersion: storage.k8s.io/v1, kind: StorageClass}", "namespaces: none"},
			remote: []string{"storage.k8s.io/storageclasses: " + copies},
			hub:    []string{"storage.k8s.io/storageclasses: " + reads, "default events.k8s.io/events: create"},
		},
		"from remotes": {
			rule:   []string{"from: Remote", "namespaces: {selector: {}}", "to: {naming: Translated, namespace: inbox}"},
			remote: []string{"/configmaps: " + reads, "/namespaces: list watch"},
			hub:    []string{"inbox /configmaps: " + copies},
		},
		"from remotes to a namespace for each": {
			rule:   []string{"from: Remote", `to: {naming: Mirror, namespace: "from-{{cluster}}"}`},
			remote: []string{"/configmaps: " + reads},
			hub:    []string{"/configmaps: " + copies},
		},
		"from remotes with the same names": {
			rule:   []string{"from: Remote", "namespaces: {names: [b, a]}"},
			remote: []string{"/configmaps: " + reads},
			hub:    []string{"a /configmaps: " + copies, "b /configmaps: " + copies},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := theRule(t, c.rule...)
			guess, _ := meta.UnsafeGuessKindToResource(r.GVK()) // as discovery says
			r.Kind.Resource = guess.Resource
			found := r.Permissions()
			var hub []string
			for _, part := range found.Hub {
				hub = append(hub, lines(part.Namespace, part.Rules)...)
			}
			slices.Sort(hub)
			slices.Sort(c.hub)
			testkit.Equal(t, lines("", found.Remote), c.remote, "in the remote")
			testkit.Equal(t, hub, c.hub, "in the hub")
		})
	}
}
