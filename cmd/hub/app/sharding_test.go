// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
)

// sharer is the user of all replicas of a hub that share the Clusters, as the ServiceAccount of Pods is.
const sharer = "exactly-shared"

// shardedHub is a hub's cluster, and a user with exactly the permissions of a hub whose replicas share the Clusters.
type shardedHub struct {
	hub
	credential *fleet.Credential
	replica    app.Options // without Config and name
}

func newShardedHub(t *testing.T, cluster *fleet.Cluster) *shardedHub {
	t.Helper()
	h := &shardedHub{hub: hub{Client: clientFor(t, cluster), t: t, cluster: cluster}}
	var err error
	h.credential, err = cluster.MintCertificate(t.Context(), fleet.User{Name: sharer})
	h.must(err)
	h.replica = h.options(modules.All()...)
	h.replica.Sharing = app.Sharing{
		Enabled: true, Shards: 4, LeaveTimeout: 30 * time.Second,
		LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
	}
	h.replica.Election = fast() // Its duration is how long a missing Lease of leader mode is awaited.
	h.replica.Election.Enabled = false
	h.replica = app.WithForgetAfter(h.replica, time.Second)
	h.must(app.GrantHub(t.Context(), h, h.replica, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: sharer}))
	return h
}

// start starts a replica, which the proxy separates from the hub's API server.
func (h *shardedHub) start(name string) (*process, *fault.Proxy) {
	h.t.Helper()
	proxy, err := fault.New(h.cluster.Config().Host)
	h.must(err)
	h.t.Cleanup(func() {
		h.stop()
		proxy.Close()
	})
	text, err := proxy.Kubeconfig(h.credential.Kubeconfig())
	h.must(err)
	o := h.replica
	o.Config, err = clientcmd.RESTConfigFromKubeConfig(text)
	h.must(err)
	o.Registry.Replica, o.HealthAddress = name, fleettest.FreeAddress(h.t)
	p := h.run(o)
	eventually(h.t, func() error { return get(h.t, o.HealthAddress, "readyz", http.StatusOK) })
	return p, proxy
}

// expectHolders waits until the shards are with these replicas, each of which has some.
func (h *shardedHub) expectHolders(names ...string) {
	h.t.Helper()
	eventually(h.t, func() error {
		var records coordinationv1.LeaseList
		err := h.List(h.t.Context(), &records, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/sharding": "record"})
		if err != nil {
			return err
		}
		has := map[string]int{}
		for _, one := range records.Items {
			holder := ""
			if one.Spec.HolderIdentity != nil {
				holder, _, _ = strings.Cut(*one.Spec.HolderIdentity, "/")
			}
			has[holder]++
		}
		for _, name := range names {
			if has[name] == 0 {
				return fmt.Errorf("the shards are with %v, want %v", has, names)
			}
		}
		if len(has) != len(names) {
			return fmt.Errorf("the shards are with %v, want %v", has, names)
		}
		return nil
	})
}

// expectNothingOf waits until nothing is left of a replica that was cut off: no Lease and no report.
func (h *shardedHub) expectNothingOf(name string) {
	h.t.Helper()
	eventually(h.t, func() error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}}
		if err := h.Get(h.t.Context(), client.ObjectKeyFromObject(lease), lease); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Lease of %s: %w", name, errors.Join(errors.New("it is not gone"), err))
		}
		var maps corev1.ConfigMapList
		if err := h.List(h.t.Context(), &maps, client.InNamespace(hubv1.DefaultNamespace)); err != nil {
			return err
		}
		for _, one := range maps.Items {
			if _, has := one.Data["hub-parts."+name+".json"]; has {
				return fmt.Errorf("the report of %s is left: %v", name, one.Data)
			}
		}
		return nil
	})
}

// Replicas that share the Clusters, whose user has exactly the roles that "hub rbac --replicas-mode Sharded" prints, register a
// Cluster, hand it over, take it from a replica that is cut off, remove what that has left, and leave. The API server refuses
// none of their requests, and each permission of the Role clusterfx-hub-sharding is needed. All replicas are ready.
func TestRBAC_ShardedIsEnough(t *testing.T) {
	t.Parallel()
	cluster, err := fleettest.New(t, fleet.Options{Audit: true}).Create(t.Context(), "hub")
	must(t, err)
	fleettest.InstallCRDs(t, cluster.Config())
	h := newShardedHub(t, cluster)
	remote := fleettest.Cluster(t, "remote")
	first, cut := h.start("first")
	h.register("shared", remote.Kubeconfig())
	h.expectReady("shared", metav1.ConditionTrue)
	h.expectHolders("first")
	second, _ := h.start("second")
	h.expectHolders("first", "second")
	h.must(cut.Set(fault.Blackhole()))
	h.expectHolders("second")
	h.expectNothingOf("first")
	h.must(cut.Set(fault.Pass()))
	h.expectHolders("first", "second")
	h.must(second.stop())
	h.expectHolders("first")
	h.expectReady("shared", metav1.ConditionTrue)
	h.must(first.stop())
	h.expectRequests()
}

// expectRequests fails the test if the API server has refused a request of the replicas for a lack of permissions, or if the
// Role for sharing has a permission that none of them needed.
func (h *shardedHub) expectRequests() {
	h.t.Helper()
	events, err := h.cluster.AuditEvents(func(e fleet.AuditEvent) bool { return e.User.Username == sharer })
	h.must(err)
	for _, e := range events {
		if e.Response.Code == http.StatusForbidden {
			h.t.Errorf("the API server refuses: %s", e)
		}
	}
	var base, sharing rbacv1.Role
	h.must(h.Get(h.t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub"}, &base))
	h.must(h.Get(h.t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub-sharding"}, &sharing))
	others := slices.DeleteFunc(events, func(e fleet.AuditEvent) bool { // which no hub may send without the Role for sharing
		return e.Object.Namespace != hubv1.DefaultNamespace || e.Response.Code >= http.StatusBadRequest ||
			slices.ContainsFunc(base.Rules, func(r rbacv1.PolicyRule) bool { return permits(r, e) })
	})
	for _, rule := range sharing.Rules {
		for _, one := range singles(rule) {
			if !slices.ContainsFunc(others, func(e fleet.AuditEvent) bool { return permits(one, e) && !narrower(sharing.Rules, one, e) }) {
				h.t.Errorf("no request needs the permission %+v", one)
			}
		}
	}
}

// singles returns a rule for each verb and name of a rule, which has one group and one resource.
func singles(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, verb := range rule.Verbs {
		one := *rule.DeepCopy()
		one.Verbs = []string{verb}
		if len(rule.ResourceNames) == 0 {
			all = append(all, one)
		}
		for _, name := range rule.ResourceNames {
			named := *one.DeepCopy()
			named.ResourceNames = []string{name}
			all = append(all, named)
		}
	}
	return all
}

// narrower reports whether a rule for the object of a request alone permits it, where the rule one is for all objects.
func narrower(rules []rbacv1.PolicyRule, one rbacv1.PolicyRule, e fleet.AuditEvent) bool {
	return len(one.ResourceNames) == 0 && slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) > 0 && permits(r, e)
	})
}

// permits reports whether a rule permits a request. A watch that begins with all objects is a list, too: it is sent as one to an API
// server that does not support such watches.
func permits(rule rbacv1.PolicyRule, e fleet.AuditEvent) bool {
	verb := slices.Contains(rule.Verbs, e.Verb) || e.Lists() && slices.Contains(rule.Verbs, "list")
	return verb && slices.Contains(rule.APIGroups, e.Object.Group) && slices.Contains(rule.Resources, e.Object.Resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, e.Object.Name))
}
