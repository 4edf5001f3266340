// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/modules/tenants"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// hours is a rule of sync, with the resource of its kind.
func hours() *hubv1.SyncRule {
	return &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "hours"}, Spec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"default"}}, Objects: hubv1.SyncObjects{Names: []string{"hours"}},
		To: hubv1.SyncTarget{Naming: hubv1.SyncMirror},
	}}
}

// Promise: the same version of a hub at rest agrees with the fleet, and its report is the same when it is repeated.
func TestRun_SameVersion(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, tenants.Bucket)
	nats.Bucket(t, js, "tenants-status")
	_, err := kv.Put(t.Context(), "acme", []byte(`{"clusters": {}, "admins": ["jane@example.com"], "quota": {"cpu": "20"}}`))
	must(t, err)
	all := []registry.Module{podcount.Module, quota.Module, inventory.Module, objectsync.Module, objectsync.RulesModule, natshub.Module, tenants.Module}
	rule, err := rules.Compile(hours())
	must(t, err)
	hub := hubtest.New(t, hubtest.Modules(all...), hubtest.NATS(server.URL()), hubtest.Remotes("oslo", "paris", "rome"),
		hubtest.Rules(append(rbac.RemoteRules(all...), rule.Permissions().Remote...)...),
		hubtest.ModuleConfig("sync", "clusters: {}"), hubtest.ModuleConfig("tenants", "clusters: {}"))
	hub.Create(
		hours(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}, Data: map[string]string{"text": "hi"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hours"}})
	for _, name := range []string{"oslo", "paris", "rome"} {
		remote := hub.Remote(name)
		remote.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"team": "a"}}})
		remote.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hours"}}, anything)
		remote.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}, anything)
		remote.WaitFor(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-acme", Name: "tenant"}}, anything)
		hub.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "podcount-" + name}}, anything)
	}
	followed := hours()
	hub.WaitFor(followed, func() error {
		if !meta.IsStatusConditionTrue(followed.Status.Conditions, hubv1.ConditionComplete) || followed.Status.Copies == nil || *followed.Status.Copies != 3 {
			return fmt.Errorf("the rule has the status %+v", followed.Status)
		}
		return nil
	})
	o := options(hub.Config(), all...)
	o.Hub.NATS.URL = server.URL()
	everywhere := &metav1.LabelSelector{}
	o.Hub.Registry.ModuleConfigs = []moduleconfig.Config{
		{Name: "sync", Clusters: everywhere}, {Name: "tenants", Clusters: everywhere},
	}
	first := run(t, o)
	testkit.Equal(t, first.Verdict(), rehearse.Agrees, "verdict")
	testkit.Equal(t, printed(t, run(t, o)), printed(t, first), "the report of the second rehearsal")
}
