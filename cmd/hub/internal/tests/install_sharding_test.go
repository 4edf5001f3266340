// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// shardingRole is the role of replicas that share the Clusters.
const shardingRole = "Role/clusterfx-system/clusterfx-hub-sharding"

// The program installs the objects that kustomize builds from the kustomization of docs/operating.md, and grants the
// permissions that "hub rbac" prints. A hub in the mode Leader has none of it.
func TestObjects_Sharded(t *testing.T) {
	t.Parallel()
	all := objects(t, install.Options{Sharded: true})
	config, err := filepath.Abs("../../../../config")
	must(t, err)
	folder := t.TempDir()
	relative, err := filepath.Rel(folder, config)
	must(t, err)
	page := testkit.Read(t, "../../../../docs/operating.md")
	_, overlay, _ := strings.Cut(page, "<!-- sharding/kustomization.yaml -->\n```yaml\n")
	overlay, _, _ = strings.Cut(overlay, "```")
	overlay = strings.ReplaceAll(overlay, "clusterfx/config", relative)
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(overlay), 0o600))
	if diff := gocmp.Diff(text(t, kustomizeFolder(t, folder)), text(t, all)); diff != "" {
		t.Errorf("kustomize has -, the program +:\n%s", diff)
	}
	printed := into[rbacv1.Role](t, find(t, parse(t, program(t, "rbac", "--in=hub", "--replicas-mode=Sharded")), shardingRole))
	if diff := gocmp.Diff(printed.Rules, into[rbacv1.Role](t, find(t, all, shardingRole)).Rules); diff != "" {
		t.Errorf("hub rbac prints -, the manifests grant +:\n%s", diff)
	}
	for _, of := range []string{text(t, objects(t, install.Options{Shards: 7})), program(t, "rbac", "--in=hub")} {
		if strings.Contains(of, "sharding") || strings.Contains(of, "Sharded") || strings.Contains(of, "--shards") {
			t.Errorf("a hub in the mode Leader has something of the mode Sharded:\n%s", of)
		}
	}
}

// The options apply to the objects of the component, and the program accepts the flags in the Deployment, in which the name of a
// replica is that of its Pod.
func TestObjects_ShardedOptions(t *testing.T) {
	t.Parallel()
	all := objects(t, install.Options{Sharded: true, Shards: 64, Replicas: 5, Namespace: "elsewhere"})
	if got := text(t, all); strings.Contains(got, "clusterfx-system") {
		t.Errorf("the default namespace is in the objects:\n%s", got)
	}
	binding := into[rbacv1.RoleBinding](t, find(t, all, "RoleBinding/elsewhere/clusterfx-hub-sharding"))
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "clusterfx-hub", Namespace: "elsewhere"}}
	if !gocmp.Equal(binding.Subjects, want) || binding.RoleRef.Name != "clusterfx-hub-sharding" {
		t.Errorf("the role is bound to %v", binding.Subjects)
	}
	hub := deployment(t, all)
	if *hub.Spec.Replicas != 5 {
		t.Errorf("the Deployment has %d replicas, want 5", *hub.Spec.Replicas)
	}
	container := hub.Spec.Template.Spec.Containers[0]
	for _, want := range []string{"--replicas-mode=Sharded", "--shards=64", "--replica-name=$(POD_NAME)"} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("the hub has the arguments %v, want %s", container.Args, want)
		}
	}
	named := ""
	for _, env := range container.Env {
		if env.Name == "POD_NAME" && env.ValueFrom != nil && env.ValueFrom.FieldRef != nil {
			named = env.ValueFrom.FieldRef.FieldPath
		}
	}
	testkit.Equal(t, named, "metadata.name", "POD_NAME")
	program(t, append(slices.Clone(container.Args), "--help")...)
}

// A Pod has more time to end than the hub needs, in both modes. Replicas that share the Clusters are replaced one after the other
// and none before its successor works; a drain of nodes takes one at a time.
func TestObjects_TimeToEnd(t *testing.T) {
	t.Parallel()
	for _, sharded := range []bool{false, true} {
		all := objects(t, install.Options{Sharded: sharded})
		spec := deployment(t, all).Spec
		grace := time.Duration(*spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		if needs := process.EndsWithin(sharded) + logging.StopTimeout; grace <= needs || grace > needs+5*time.Second {
			t.Errorf("sharded %t: a Pod has %s to end, and the hub takes up to %s", sharded, grace, needs)
		}
		budget := into[policyv1.PodDisruptionBudget](t, find(t, all, "PodDisruptionBudget/clusterfx-system/clusterfx-hub"))
		if budget.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("sharded %t: a drain may take %s Pods at a time", sharded, budget.Spec.MaxUnavailable)
		}
	}
	spec := deployment(t, objects(t, install.Options{Sharded: true})).Spec
	update := spec.Strategy.RollingUpdate
	if *spec.Replicas != 3 || spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType ||
		update.MaxSurge.IntValue() != 1 || update.MaxUnavailable.IntValue() != 0 {
		t.Errorf("the Deployment is %+v", spec)
	}
	if back := deployment(t, objects(t, install.Options{})).Spec; *back.Replicas != 2 || back.MinReadySeconds != 0 {
		t.Errorf("the Deployment of the mode Leader is %+v", back)
	}
	if ready, claims := time.Duration(spec.MinReadySeconds)*time.Second, replica.DefaultDuration; ready <= claims {
		t.Errorf("a Pod counts after %s, and a replica claims its lease within %s", ready, claims)
	}
}

// An API server accepts the manifests of the mode Sharded with strict validation, over those of the mode Leader and again. The Role
// remains after the way back, which needs it, and Leftovers names it.
func TestApply_Sharded(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	const namespace = "sharded"
	leader, sharded := install.Options{Namespace: namespace}, install.Options{Namespace: namespace, Sharded: true}
	apply := func(o install.Options) {
		t.Helper()
		own := slices.DeleteFunc(objects(t, o), func(one *unstructured.Unstructured) bool { // Others are shared with other tests.
			return one.GetNamespace() != namespace && one.GetName() != namespace
		})
		must(t, install.Apply(t.Context(), c, own, install.ApplyOptions{ForceConflicts: true}))
	}
	apply(leader)
	apply(sharded)
	apply(sharded)
	apply(leader)
	var role rbacv1.Role
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "clusterfx-hub-sharding"}, &role); err != nil {
		t.Error(err)
	}
	left, err := install.Leftovers(t.Context(), c, objects(t, leader))
	if err != nil || !slices.ContainsFunc(left, func(text string) bool {
		return strings.Contains(text, "clusterfx-hub-sharding in namespace "+namespace)
	}) {
		t.Errorf("the role that the mode Leader does not need is not named: %v (%v)", left, err)
	}
}
