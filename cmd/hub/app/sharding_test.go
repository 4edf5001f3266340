// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
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
	h.replica.Alone, h.replica.Shards, h.replica.LeaveTimeout = false, 4, 30*time.Second
	h.replica.LeaseDuration, h.replica.RenewDeadline, h.replica.RetryPeriod = 6*time.Second, 4*time.Second, time.Second
	h.replica.ForgetAfter = time.Second
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

// expectNothingOf waits until nothing is left of a replica that was cut off: no Lease and no report.
func (h *shardedHub) expectNothingOf(name string) {
	h.t.Helper()
	eventually(h.t, func() error {
		var leases coordinationv1.LeaseList
		err := h.List(h.t.Context(), &leases, client.InNamespace(hubv1.DefaultNamespace), client.MatchingLabels{"clusterfx.dev/pod": name})
		if err != nil || len(leases.Items) > 0 {
			return fmt.Errorf("a Lease of %s is not gone: %w", name, err)
		}
		var maps corev1.ConfigMapList
		if err := h.List(h.t.Context(), &maps, client.InNamespace(hubv1.DefaultNamespace)); err != nil {
			return err
		}
		for _, one := range maps.Items {
			if _, has := one.Data[name]; has {
				return fmt.Errorf("the report of %s is left: %v", name, one.Data)
			}
		}
		return nil
	})
}

// Replicas that share the Clusters, whose user has exactly the roles that "hub rbac" prints, register a Cluster, hand it over, take
// it from a replica that is cut off, remove what that has left, and leave. The API server refuses none of their requests, and each
// permission for Leases and for the ConfigMaps of the installation is needed. All replicas are ready.
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
	for _, rule := range replica.Rules() {
		for _, one := range singles(rule) {
			if !slices.ContainsFunc(events, func(e fleet.AuditEvent) bool {
				return e.Object.Namespace == hubv1.DefaultNamespace && e.Response.Code < http.StatusBadRequest && permits(one, e)
			}) {
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

// permits reports whether a rule permits a request. A watch that begins with all objects is a list, too: it is sent as one to an API
// server that does not support such watches.
func permits(rule rbacv1.PolicyRule, e fleet.AuditEvent) bool {
	verb := slices.Contains(rule.Verbs, e.Verb) || e.Lists() && slices.Contains(rule.Verbs, "list")
	return verb && slices.Contains(rule.APIGroups, e.Object.Group) && slices.Contains(rule.Resources, e.Object.Resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, e.Object.Name))
}
