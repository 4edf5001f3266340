// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/tenants"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// tenancy is a hub with a NATS server.
type tenancy struct {
	*hubtest.Hub
	t          *testing.T
	server     *nats.Server
	kv, status jetstream.KeyValue
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	s := &tenancy{t: t, server: nats.Start(t)}
	_, js := nats.Connect(t, s.server.URL())
	s.kv, s.status = nats.Bucket(t, js, tenants.Bucket), nats.Bucket(t, js, "tenants-status")
	s.Hub = hubtest.New(t, hubtest.Modules(natshub.Module, tenants.Module),
		hubtest.Rules(rbac.RemoteRules(tenants.Module)...),
		hubtest.NATS(s.server.URL()))
	return s
}

func (s *tenancy) remote(name, region string) *hubtest.Remote {
	s.t.Helper()
	return s.AddRemote(name, func(c *hubv1.Cluster) {
		c.Labels = map[string]string{"region": region}
		c.Spec.Modules = []string{"tenants"}
	})
}

func (s *tenancy) put(key, text string) {
	s.t.Helper()
	if _, err := s.kv.Put(s.t.Context(), key, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// expectStatus waits until the status of a tenant contains all texts, or does not exist.
func (s *tenancy) expectStatus(key string, texts ...string) {
	s.t.Helper()
	s.Eventually(func() error {
		e, err := s.status.Get(s.t.Context(), key)
		if len(texts) == 0 && errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(string(e.Value()), text) {
				return fmt.Errorf("the status is %s, without %s", e.Value(), text)
			}
		}
		if len(texts) == 0 {
			return fmt.Errorf("the status is %s", e.Value())
		}
		return nil
	})
}

// A tenant gets its namespace in the remotes that it selects, and loses it when it no longer selects them, and when it is deleted.
// Promise: a Cluster is deleted: its part of the status goes.
func TestTenants(t *testing.T) {
	t.Parallel()
	s := newTenancy(t)
	paris, oslo := s.remote("paris", "eu"), s.remote("oslo", "north")
	paris.WaitReady()
	oslo.WaitReady()
	s.put("acme", `{"clusters":{"matchLabels":{"region":"eu"}},"admins":["jane"],"quota":{"cpu":"2"}}`)
	at := metav1.ObjectMeta{Namespace: "tenant-acme", Name: "tenant"}
	quota, binding := &corev1.ResourceQuota{ObjectMeta: at}, &rbacv1.RoleBinding{ObjectMeta: at}
	paris.Eventually(func() error { return paris.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), quota) })
	paris.Eventually(func() error { return paris.Client().Get(t.Context(), client.ObjectKeyFromObject(binding), binding) })
	paris.Eventually(func() error {
		return paris.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), &networkingv1.NetworkPolicy{})
	})
	if cpu := quota.Spec.Hard["cpu"]; cpu.String() != "2" || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "jane" {
		t.Errorf("quota %v, admins %v", quota.Spec.Hard, binding.Subjects)
	}
	s.expectStatus("acme", `"paris":{`, `"ready":true`, `"reason":"Made"`)

	s.put("acme", `{"clusters":{"matchLabels":{"region":"eu"}},"state":"Suspended"}`)
	paris.Eventually(func() error {
		err := paris.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		if pods := quota.Spec.Hard["pods"]; err == nil && (pods.String() != "0" || len(quota.Spec.Hard) != 1) {
			err = fmt.Errorf("the quota is %v", quota.Spec.Hard)
		}
		return err
	})
	s.expectAdmins(paris, "acme")
	s.expectStatus("acme", `"reason":"Suspended"`)

	s.put("acme", `{"clusters":{"matchLabels":{"region":"north"}}}`)
	oslo.Eventually(func() error { return oslo.Client().Get(t.Context(), client.ObjectKeyFromObject(quota), quota) })
	waitTerminating(t, paris)
	s.expectStatus("acme", `"oslo":{`)

	s.put("acme", `{"clusters":{}}`)
	s.expectStatus("acme", `"oslo":{`, `"paris":{`)
	paris.Deregister() // It takes its part of the status with it.
	s.Eventually(func() error {
		e, err := s.status.Get(t.Context(), "acme")
		if err == nil && (strings.Contains(string(e.Value()), "paris") || !strings.Contains(string(e.Value()), "oslo")) {
			err = fmt.Errorf("the status is %s", e.Value())
		}
		return err
	})

	testkit.Must(t, s.kv.Delete(t.Context(), "acme"))
	waitTerminating(t, oslo)
}

// expectAdmins waits until the RoleBinding of a tenant has these users.
func (s *tenancy) expectAdmins(r *hubtest.Remote, tenant string, want ...string) {
	s.t.Helper()
	r.Eventually(func() error {
		var binding rbacv1.RoleBinding
		err := r.Client().Get(s.t.Context(), client.ObjectKey{Namespace: "tenant-" + tenant, Name: "tenant"}, &binding)
		var got []string
		for _, subject := range binding.Subjects {
			got = append(got, subject.Name)
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("the admins of %s are %q, want %q", tenant, got, want)
		}
		return err
	})
}

// A default-deny that somebody in the remote narrows to no Pod is made whole again.
func TestTenants_Drift(t *testing.T) {
	t.Parallel()
	s := newTenancy(t)
	paris := s.remote("paris", "eu")
	paris.WaitReady()
	s.put("acme", `{"clusters":{"matchLabels":{"region":"eu"}}}`)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-acme", Name: "tenant"}}
	paris.WaitFor(policy, func() error { return nil })
	narrowed := []byte(`{"spec":{"podSelector":{"matchLabels":{"app":"none"}}}}`)
	testkit.Must(t, paris.Client().Patch(t.Context(), policy, client.RawPatch("application/merge-patch+json", narrowed)))
	paris.WaitFor(policy, func() error {
		if n := len(policy.Spec.PodSelector.MatchLabels); n > 0 {
			return fmt.Errorf("the policy is for %v", policy.Spec.PodSelector)
		}
		return nil
	})
}

// A tenant leaves a remote that is relabelled, at once and without another start of the app, and its administrators lose their rights.
func TestTenants_Relabelled(t *testing.T) {
	t.Parallel()
	s := newTenancy(t)
	paris := s.remote("paris", "eu")
	paris.WaitReady()
	s.put("acme", `{"clusters":{"matchLabels":{"region":"eu"}},"admins":["jane"]}`)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-acme", Name: "tenant"}}
	paris.WaitFor(binding, func() error { return nil })
	before, _ := s.Registry().Status("paris")
	paris.Change(func(c *hubv1.Cluster) { c.Labels = map[string]string{"region": "us"} })
	paris.WaitGone(binding)
	s.expectStatus("acme")
	if after, _ := s.Registry().Status("paris"); after.Epoch != before.Epoch {
		t.Errorf("the app was started again: epoch %d, then %d", before.Epoch, after.Epoch)
	}
}

// Five revocations within ten minutes are done at once: they are writes, which no limit of deletes holds. That an admin has applied
// himself, or copied the marks of his RoleBinding to thirty others, neither keeps him nor another one, and deletes nothing.
// Promise: an admin of a tenant forges marks, or applies himself: his and other revocations are done at once.
func TestTenants_Revocations(t *testing.T) {
	t.Parallel()
	s := newTenancy(t)
	paris := s.remote("paris", "eu")
	const tenants = 5
	for i := range tenants {
		s.put(fmt.Sprint("t", i), `{"clusters":{},"admins":["jane"]}`)
		s.expectAdmins(paris, fmt.Sprint("t", i), "jane")
	}
	var made rbacv1.RoleBinding
	testkit.Must(t, paris.Client().Get(t.Context(), client.ObjectKey{Namespace: "tenant-t0", Name: "tenant"}, &made))
	applied := rbacv1ac.RoleBinding("tenant", "tenant-t0").WithSubjects(
		rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName("jane"))
	testkit.Must(t, paris.Client().Apply(t.Context(), applied, client.FieldOwner("jane")))
	const forged = 30
	for i := range forged {
		one := &rbacv1.RoleBinding{RoleRef: made.RoleRef, ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant-t0", Name: fmt.Sprint("forged-", i), Labels: made.Labels, Annotations: made.Annotations,
		}}
		testkit.Must(t, paris.Client().Create(t.Context(), one))
	}
	for i := range tenants {
		s.put(fmt.Sprint("t", i), `{"clusters":{}}`)
		s.expectAdmins(paris, fmt.Sprint("t", i))
		s.expectStatus(fmt.Sprint("t", i), `"reason":"Made"`)
	}
	s.put("t0", `{"clusters":{},"admins":["joe"]}`) // It is reconciled again, with all that was forged.
	s.expectAdmins(paris, "t0", "joe")
	s.put("t0", `{"clusters":{},"admins":["jim"]}`)
	s.expectAdmins(paris, "t0", "jim")
	var all rbacv1.RoleBindingList
	testkit.Must(t, paris.Client().List(t.Context(), &all, client.InNamespace("tenant-t0")))
	testkit.Equal(t, len(all.Items), forged+1, "RoleBindings are left")
	s.expectStatus("t0", `"reason":"Made"`) // and not DeletesHeld
}

// waitTerminating waits until the namespace of the tenant is gone, or would be if its controller ran: an API server alone does not
// end the deletion of a namespace.
func waitTerminating(t *testing.T, r *hubtest.Remote) {
	t.Helper()
	r.Eventually(func() error {
		var ns corev1.Namespace
		err := r.Client().Get(t.Context(), client.ObjectKey{Name: "tenant-acme"}, &ns)
		if err == nil && ns.DeletionTimestamp == nil {
			err = errors.New("the namespace is not deleted")
		}
		return client.IgnoreNotFound(err)
	})
}

// A tenant that is deleted while a remote is away loses its namespace there when the remote is back; the other remote does not wait.
// Promise: a remote is away when an entity is deleted: it follows when it is back; the others do not wait.
func TestTenants_RemoteIsAway(t *testing.T) {
	t.Parallel()
	s := newTenancy(t)
	paris, oslo := s.remote("paris", "eu"), s.remote("oslo", "north")
	s.put("acme", `{"clusters":{}}`)
	s.expectStatus("acme", `"oslo":{`, `"paris":{`)
	paris.Kill()
	testkit.Must(t, s.kv.Delete(t.Context(), "acme"))
	waitTerminating(t, oslo)
	paris.Restart()
	waitTerminating(t, paris)
}

// A hub without NATS runs, and its remotes are Ready.
func TestTenants_WithoutNATS(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(natshub.Module, tenants.Module), hubtest.Rules(rbac.RemoteRules(tenants.Module)...))
	r := hub.AddRemote("paris", func(c *hubv1.Cluster) { c.Spec.Modules = []string{"tenants"} })
	r.WaitReady()
}

// A tenant that cannot be made is refused.
func TestTenants_Validate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tenant tenants.Tenant
		want   string
	}{
		"empty":          {tenants.Tenant{}, ""},
		"a state":        {tenants.Tenant{State: tenants.Suspended}, ""},
		"no such state":  {tenants.Tenant{State: "Gone"}, "state"},
		"a bad selector": {tenants.Tenant{Clusters: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}}, "clusters"},
		"no name":        {tenants.Tenant{Admins: []string{""}}, "admins"},
		"too many":       {tenants.Tenant{Admins: make([]string, 101)}, "admins"},
	} {
		err := tenants.Validate(c.tenant)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
