// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/modules/tenants"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

const syncRules = `{"rules": [{"name": "hours", "from": "Hub", "kind": {"apiVersion": "v1", "kind": "ConfigMap"},
	"namespaces": {"names": ["default"]}, "objects": {"matchLabels": {"sync": "everywhere"}}, "to": {"names": "Mirror", "namespace": "default"}}]}`

// Promise: the same version of a hub at rest agrees with the fleet, and its report is the same when it is repeated.
func TestRun_SameVersion(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, tenants.Bucket)
	nats.Bucket(t, js, "tenants-status")
	_, err := kv.Put(t.Context(), "acme", []byte(`{"clusters": {}, "admins": ["jane@example.com"], "quota": {"cpu": "20"}}`))
	must(t, err)
	all := []registry.Module{podcount.Module, quota.Module, inventory.Module, objectsync.Module, natshub.Module, tenants.Module}
	hub := hubtest.New(t, hubtest.Modules(all...), hubtest.NATS(server.URL()), hubtest.Remotes("oslo", "paris", "rome"),
		hubtest.ModuleConfig("sync", "{clusters: {}, config: "+syncRules+"}"), hubtest.ModuleConfig("tenants", "clusters: {}"))
	hub.Create(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}, Data: map[string]string{"text": "hi"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hours", Labels: map[string]string{"sync": "everywhere"}}})
	for _, name := range []string{"oslo", "paris", "rome"} {
		remote := hub.Remote(name)
		remote.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"team": "a"}}})
		remote.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hours"}}, anything)
		remote.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}}, anything)
		remote.WaitFor(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-acme", Name: "tenant"}}, anything)
		hub.WaitFor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "podcount-" + name}}, anything)
	}
	o := options(hub.Config(), all...)
	o.Hub.NATS.URL = server.URL()
	everywhere := &metav1.LabelSelector{}
	o.Hub.Registry.ModuleConfigs = []moduleconfig.Config{
		{Name: "sync", Clusters: everywhere, Config: []byte(syncRules)}, {Name: "tenants", Clusters: everywhere},
	}
	first := run(t, o)
	testkit.Equal(t, first.Verdict(), rehearse.Agrees, "verdict")
	testkit.Equal(t, printed(t, run(t, o)), printed(t, first), "the report of the second rehearsal")
}
