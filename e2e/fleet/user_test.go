// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// remembered is longer than the time for which an API server caches that a token is valid.
const remembered = 20 * time.Second

type mint func(context.Context, fleet.User) (*fleet.Credential, error)

// mints returns the functions that mint a credential, by the kind of credential.
func mints(c *fleet.Cluster) map[string]mint {
	return map[string]mint{"certificate": c.MintCertificate, "token": c.MintToken}
}

// eachMint tests them in parallel.
func eachMint(t *testing.T, test func(*testing.T, *WithT, mint)) {
	t.Helper()
	t.Parallel()
	for name, m := range mints(fleettest.Cluster(t, "a")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, NewWithT(t), m)
		})
	}
}

func readConfigMaps() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}
}

func readAccount(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	_, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
	return err
}

func TestCluster_Mint_rights(t *testing.T) {
	eachMint(t, func(t *testing.T, g *WithT, m mint) {
		reader, err := m(t.Context(), fleet.User{Name: "reader", Rules: readConfigMaps()})
		g.Expect(err).NotTo(HaveOccurred())
		client := clientFor(t, reader.Config())
		g.Expect(list(t.Context(), client)).To(Succeed())
		g.Expect(read(t.Context(), client, "any")).To(Satisfy(apierrors.IsForbidden))

		nobody, err := m(t.Context(), fleet.User{Name: "nobody"})
		g.Expect(err).NotTo(HaveOccurred())
		client = clientFor(t, nobody.Config())
		g.Expect(list(t.Context(), client)).To(Satisfy(apierrors.IsForbidden))
		_, err = client.Discovery().ServerVersion()
		g.Expect(err).NotTo(HaveOccurred())
	})
}

func TestCluster_Mint_kubeconfig(t *testing.T) {
	eachMint(t, func(t *testing.T, g *WithT, m mint) {
		user, err := m(t.Context(), fleet.User{Name: "kubeconfig-user", Rules: readConfigMaps()})
		g.Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.RESTConfigFromKubeConfig(user.Kubeconfig())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list(t.Context(), clientFor(t, config))).To(Succeed())
	})
}

func TestCluster_Mint_lifetime(t *testing.T) {
	eachMint(t, func(t *testing.T, g *WithT, m mint) {
		user, err := m(t.Context(), fleet.User{Name: "mayfly", Rules: readConfigMaps(), Lifetime: 3 * time.Second})
		g.Expect(err).NotTo(HaveOccurred())
		client := clientFor(t, user.Config())
		g.Expect(list(t.Context(), client)).To(Succeed())
		g.Eventually(list).WithContext(t.Context()).WithArguments(client).
			WithTimeout(remembered).Should(Satisfy(apierrors.IsUnauthorized))
		g.Expect(time.Now()).To(BeTemporally(">=", user.Expires()))
	})
}

func TestCredential_Revoke(t *testing.T) {
	eachMint(t, func(t *testing.T, g *WithT, m mint) {
		user := fleet.User{Name: "revoked", Rules: readConfigMaps()}
		first, err := m(t.Context(), user)
		g.Expect(err).NotTo(HaveOccurred())
		client := clientFor(t, first.Config())
		g.Expect(list(t.Context(), client)).To(Succeed())

		unused, err := m(t.Context(), user)
		g.Expect(err).NotTo(HaveOccurred())

		g.Expect(first.Revoke(t.Context())).To(Succeed())
		g.Expect(first.Revoke(t.Context())).To(Succeed(), "revoking again")
		g.Eventually(list).WithContext(t.Context()).WithArguments(client).ShouldNot(Succeed())
		if first.Config().BearerToken != "" {
			g.Eventually(list).WithContext(t.Context()).WithArguments(clientFor(t, unused.Config())).
				Should(Satisfy(apierrors.IsUnauthorized))
		}

		again, err := m(t.Context(), user)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list(t.Context(), clientFor(t, again.Config()))).To(Succeed())
	})
}

func TestCluster_Mint_groups(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := fleettest.Cluster(t, "a")
	admin := fleet.User{Name: "group-admin", Groups: []string{"system:masters"}}
	credential, err := c.MintCertificate(t.Context(), admin)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list(t.Context(), clientFor(t, credential.Config()))).To(Succeed())
	_, err = c.MintToken(t.Context(), admin)
	g.Expect(err).To(MatchError(ContainSubstring("mint a certificate")))
}
