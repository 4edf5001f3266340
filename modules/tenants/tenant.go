// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// States of a tenant.
const (
	Active    = "Active"
	Suspended = "Suspended"
)

// Tenant is the value of a tenant.
type Tenant struct {
	// Clusters selects Clusters by labels. Default: none. {} selects all.
	Clusters *metav1.LabelSelector `json:"clusters,omitempty"`
	// Quota limits the tenant's namespace in each remote. Default: no limits.
	Quota corev1.ResourceList `json:"quota,omitempty"`
	// Admins are users of the remotes with the ClusterRole admin in the namespace.
	Admins []string `json:"admins,omitempty"`
	// State is Active or Suspended. Default: Active.
	State string `json:"state,omitempty"`
}

const maxAdmins = 100

var (
	errState  = errors.New("state: Active or Suspended")
	errAdmins = errors.New("admins: at most 100, none of them empty")
)

// Validate returns an error for a tenant that cannot be made.
func Validate(t Tenant) error {
	var all []error
	if t.State != "" && t.State != Active && t.State != Suspended {
		all = append(all, errState)
	}
	if _, err := metav1.LabelSelectorAsSelector(t.Clusters); err != nil {
		all = append(all, fmt.Errorf("clusters: %w", err))
	}
	if len(t.Admins) > maxAdmins || slices.Contains(t.Admins, "") {
		all = append(all, errAdmins)
	}
	return errors.Join(all...)
}

func namespaceOf(key string) string { return "tenant-" + key }

const objectName = "tenant"

func kinds() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.ResourceQuota{}, &rbacv1.RoleBinding{}, &networkingv1.NetworkPolicy{},
	}
}

func (t Tenant) objects(key string) []client.Object {
	in := metav1.ObjectMeta{Namespace: namespaceOf(key), Name: objectName}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(key)}},
		&corev1.ResourceQuota{ObjectMeta: in, Spec: corev1.ResourceQuotaSpec{Hard: t.hard()}},
		&networkingv1.NetworkPolicy{ObjectMeta: in, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
		}},
		t.binding(key),
	}
}

// binding is there without admins, too: to revoke the last one is a write, which no limit of deletes delays. A typed
// RoleBinding would leave an empty list out, and an apply then keeps what another client has applied.
func (t Tenant) binding(key string) client.Object {
	subjects := []any{}
	for _, admin := range t.Admins {
		subjects = append(subjects, map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": admin})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "RoleBinding",
		"metadata": map[string]any{"namespace": namespaceOf(key), "name": objectName},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "admin"},
		"subjects": subjects,
	}}
}

func (t Tenant) hard() corev1.ResourceList {
	hard := maps.Clone(t.Quota)
	if hard == nil {
		hard = corev1.ResourceList{}
	}
	if t.State == Suspended {
		hard[corev1.ResourcePods] = resource.MustParse("0")
	}
	return hard
}
