// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
)

// appsNamespace is the namespace whose ServiceAccounts a hub with the default flags impersonates.
const appsNamespace = hubv1.DefaultNamespace + "-apps"

// expectNobodyElse fails the test unless the user with the printed roles can impersonate the ServiceAccounts of apps, and only these.
func (h *hub) expectNobodyElse(config *rest.Config) {
	h.t.Helper()
	as := func(user rest.ImpersonationConfig) error {
		config := rest.CopyConfig(config)
		config.Impersonate = user
		c, err := client.New(config, client.Options{Scheme: h.Scheme()})
		h.must(err)
		return c.Create(h.t.Context(), &authenticationv1.SelfSubjectReview{})
	}
	app := "system:serviceaccount:" + appsNamespace + ":any"
	eventually(h.t, func() error { return as(rest.ImpersonationConfig{UserName: app}) }) // until RBAC takes effect
	for what, user := range map[string]rest.ImpersonationConfig{
		"a controller of Kubernetes":    {UserName: "system:kube-controller-manager"},
		"an administrator":              {UserName: "kubernetes-admin"},
		"a user with a name as before":  {UserName: "clusterfx:cluster:any"},
		"a user of no namespace":        {UserName: "system:serviceaccount:" + appsNamespace + ":Any"},
		"an account of kube-system":     {UserName: "system:serviceaccount:kube-system:generic-garbage-collector"},
		"the hub's own account":         {UserName: "system:serviceaccount:" + hubv1.DefaultNamespace + ":clusterfx-hub"},
		"an account of another":         {UserName: "system:serviceaccount:default:default"},
		"members of system:masters":     {UserName: app, Groups: []string{"system:masters"}},
		"members of another group":      {UserName: app, Groups: []string{"system:serviceaccounts:kube-system"}},
		"somebody with another UID":     {UserName: app, UID: "1"},
		"somebody with extra fields":    {UserName: app, Extra: map[string][]string{"a": {"b"}}},
		"a node":                        {UserName: "system:node:any", Groups: []string{"system:nodes"}},
		"members of a group of its own": {UserName: app, Groups: []string{"system:authenticated"}},
	} {
		if err := as(user); !apierrors.IsForbidden(err) {
			h.t.Errorf("the hub may act as %s: %v", what, err)
		}
	}
}

// A hub whose user has exactly the roles that it prints for the impersonation of apps may impersonate only the
// ServiceAccounts of apps, and may create no tokens, ServiceAccounts, Secrets or Pods in their namespace. Its apps
// work, although the ServiceAccounts do not exist.
func TestImpersonateApps(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	user, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: "impersonating"})
	h.must(err)
	grant(t, h.Client, "impersonating", h.roles("--in=hub", "--impersonate-apps"))
	h.expectNobodyElse(user.Config())
	c := fleettest.Client(t, user)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: appsNamespace, Name: "any"}}
	for what, err := range map[string]error{
		"a token":          c.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{}),
		"a ServiceAccount": c.Create(t.Context(), account.DeepCopy()),
		"a Secret":         c.Create(t.Context(), &corev1.Secret{ObjectMeta: account.ObjectMeta}),
		"a Pod":            c.Create(t.Context(), &corev1.Pod{ObjectMeta: account.ObjectMeta}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the hub may create %s in the namespace of the ServiceAccounts: %v", what, err)
		}
	}

	o := h.options(modules.All()...)
	o.Config, o.Registry.Impersonate = user.Config(), true
	h.run(o)
	h.register("impersonated", fleettest.Cluster(t, "remote").Kubeconfig())
	eventually(t, func() error {
		var found hubv1.Cluster
		if err := h.Get(t.Context(), client.ObjectKey{Name: "impersonated"}, &found); err != nil {
			return err
		}
		if found.Status.Inventory.Nodes == nil {
			return fmt.Errorf("the module has not counted Nodes: %+v", found.Status)
		}
		return nil
	})
	var accounts corev1.ServiceAccountList
	h.must(h.List(t.Context(), &accounts, client.InNamespace(appsNamespace)))
	if len(accounts.Items) > 0 {
		t.Errorf("there are unexpected ServiceAccounts: %v", accounts.Items)
	}
	h.must(h.Delete(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "impersonated"}}))
}
