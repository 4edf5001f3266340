// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/tenants"
)

// With the policy of docs/security.md, the account of the hub binds admin in the namespaces of tenants and nowhere else.
func TestTenants_Policy(t *testing.T) {
	t.Parallel()
	const account = "the-hub"
	must := func(err error) {
		t.Helper()
		testkit.Must(t, err)
	}
	cluster := fleettest.Cluster(t, "policy")
	admin := fleettest.Client(t, cluster)
	text, err := os.ReadFile("tenants/policy.yaml")
	must(err)
	text = bytes.Replace(text, []byte("system:serviceaccount:kube-system:clusterfx-edge-eu-1"), []byte(account), 1)
	for _, part := range bytes.Split(text, []byte("---\n")) {
		one := &unstructured.Unstructured{}
		must(yaml.Unmarshal(part, one))
		must(admin.Create(t.Context(), one))
	}
	credential, err := cluster.MintCertificate(t.Context(), fleet.User{Name: account, Rules: tenants.Module.Rules()})
	must(err)
	hub := fleettest.Client(t, credential)

	binding := func(namespace string) error {
		return hub.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "b-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: account}},
		})
	}
	gomega.NewWithT(t).Eventually(func() error { // The API server enforces a policy after a moment.
		if err := binding(metav1.NamespaceDefault); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("a binding in the namespace default: %w", err)
		}
		return nil
	}).WithTimeout(time.Minute).Should(gomega.Succeed())
	must(hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-acme"}}))
	must(binding("tenant-acme"))
	if err := hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); err == nil {
		t.Error("the hub has created a Namespace that is of no tenant")
	}
}
