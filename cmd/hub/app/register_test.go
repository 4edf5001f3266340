// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"strings"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// certsModule returns a module that reads Secrets of the Clusters with the label certs=true.
func certsModule() registry.Module {
	return registry.NewModule("certs", registry.ModuleOptions{
		Remote: fx.Invoke(func(registry.Remote) {}),
		Select: registry.Selector{Labels: labels.SelectorFromSet(labels.Set{"certs": "true"})},
		Rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}},
	})
}

// register grants the permissions of the modules that the labels of the Cluster select. Run again after a change of the
// labels, it widens or narrows the grant. A dry run prints the permissions.
func TestRegister_GrantsWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	remote := fleettest.Cluster(t, "remote")
	ofRemote := "--cluster-kubeconfig=" + kubeconfigOf(t, remote)
	certs := []registry.Module{certsModule()}
	register := func(args ...string) (stderr string) {
		t.Helper()
		code, _, problems := h.execute(certs, append([]string{"register", "granted", ofRemote}, args...)...)
		if code != 0 {
			t.Fatal(problems)
		}
		return problems
	}
	for labels, want := range map[string]bool{"region=eu": false, "certs=true": true} {
		if got := register("--dry-run=server", "-l", labels); strings.Contains(got, "which may list secrets") != want {
			t.Errorf("a dry run with the label %s, want list secrets %t:\n%s", labels, want, got)
		}
	}
	inRemote := clientFor(t, remote)
	expectSecrets := func(want bool) {
		t.Helper()
		register("--yes", "--wait=false")
		var role rbacv1.ClusterRole
		h.must(inRemote.Get(t.Context(), client.ObjectKey{Name: "clusterfx-granted"}, &role))
		got := false
		for _, rule := range role.Rules {
			got = got || rule.Resources[0] == "secrets"
		}
		testkit.Equal(t, got, want, "the account may list Secrets")
	}
	relabel := func(value string) {
		t.Helper()
		c := &hubv1.Cluster{}
		h.must(h.Get(t.Context(), client.ObjectKey{Name: "granted"}, c))
		c.Labels = map[string]string{"certs": value}
		h.must(h.Update(t.Context(), c))
	}
	expectSecrets(false)
	for _, mode := range []string{"client", "server", "none"} {
		code, _, problems := h.execute(certs, "register", "granted", ofRemote, "--yes", "-l", "certs=true", "--dry-run="+mode)
		if code == 0 || !strings.Contains(problems, "is registered already, without the label certs=true") {
			t.Errorf("--dry-run=%s of a Cluster with other labels: %d, %s", mode, code, problems)
		}
	}
	// The owner of the remote has granted what a rule of sync needs: the role has it by its label, and keeps it.
	aggregated := func() *rbacv1.ClusterRole {
		var role rbacv1.ClusterRole
		h.must(inRemote.Get(t.Context(), client.ObjectKey{Name: "clusterfx-granted-sync"}, &role))
		return &role
	}
	role := aggregated()
	testkit.Equal(t, role.AggregationRule.ClusterRoleSelectors[0].MatchLabels, map[string]string{hubv1.LabelAggregateToSync: "true"}, "the selector")
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}} // as the controller does
	h.must(inRemote.Update(t.Context(), role))
	relabel("true")
	expectSecrets(true)
	relabel("false")
	expectSecrets(false)
	testkit.Equal(t, aggregated().Rules, role.Rules, "the aggregated permissions after register")
}
