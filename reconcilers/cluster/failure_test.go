// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// failure is a failure of one Cluster, and its repair.
type failure struct {
	broken, mended func(h *hub, name string)
	kind           string // the condition that reports it
	status         metav1.ConditionStatus
	reason         string
	says           string // part of the message: the advice, or the place
	stalled        bool
}

// A failure of each condition on the way to Ready is reported there and in Ready, and the Cluster heals without a person; the
// others do not notice it. TestReading has the other reasons of CredentialsValid, and TestCluster_StatusNamesControllers a failure
// of ModulesReady.
func TestCluster_EachFailureHasItsReasonAndHealsByItself(t *testing.T) {
	t.Parallel()
	remote := fleettest.Cluster(t, "one")
	h := newHub(t, func(o *hubOptions) { o.modules = modules.All() })
	healthy := h.name("healthy")
	h.putKubeconfig(healthy, remote.Kubeconfig())
	h.newCluster(healthy, nil)
	h.expectReady(healthy)
	h.expect(healthy, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	before := restsOf(h, healthy)

	t.Run("failures", func(t *testing.T) {
		for name, f := range failures(t, remote) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := *h
				h.t = t
				f.run(&h, h.name(strings.ReplaceAll(name, " ", "-")))
			})
		}
	})
	if after := restsOf(h, healthy); after != before {
		t.Errorf("the healthy Cluster changed to %s, want %s", after, before)
	}
}

// undeclared is a module that watches Nodes and does not declare the permission for that.
func undeclared() registry.Module {
	return registry.NewModule("undeclared", registry.ModuleOptions{Remote: fx.Invoke(func(mgr ctrl.Manager) error {
		nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })
		return ctrl.NewControllerManagedBy(mgr).Named("undeclared").For(&corev1.Node{}).Complete(nothing)
	})})
}

// restsOf describes the state that changes if a Cluster is disturbed.
func restsOf(h *hub, name string) string {
	ready := meta.FindStatusCondition(h.get(name).Status.Conditions, hubv1.ConditionReady)
	return fmt.Sprintf("%s since %s, epoch %d", ready.Reason, ready.LastTransitionTime, h.info(name).Epoch)
}

func (f failure) run(h *hub, name string) {
	h.t.Helper()
	if f.broken != nil {
		f.broken(h, name)
	}
	h.newCluster(name, nil)
	c := h.expect(name, f.kind, f.status, f.reason)
	one := meta.FindStatusCondition(c.Status.Conditions, f.kind)
	if !strings.Contains(one.Message, f.says) {
		h.t.Errorf("the message does not contain %q: %s", f.says, one.Message)
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != f.reason {
		h.t.Errorf("got Ready = %s/%s, want False/%s", ready.Status, ready.Reason, f.reason)
	}
	if stalled := meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionStalled); stalled != f.stalled {
		h.t.Errorf("Stalled is %t, want %t", stalled, f.stalled)
	}
	f.mended(h, name)
	h.expectReady(name)
}

func failures(t *testing.T, remote *fleet.Cluster) map[string]failure {
	t.Helper()
	good := remote.Kubeconfig()
	give := func(data []byte) func(*hub, string) {
		return func(h *hub, name string) { h.putKubeconfig(name, data) }
	}
	return map[string]failure{
		"missing secret": {
			nil, func(h *hub, name string) {
				h.putSecret(name, map[string][]byte{})
				h.expectReason(name, hubv1.ReasonKeyNotFound)
				h.putKubeconfig(name, good)
			},
			hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound, "create it", false,
		},
		"not a kubeconfig": {
			give([]byte("hello")), give(good),
			hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonInvalidKubeconfig, "", true,
		},
		"wrong authority": {
			give(edit(t, good, func(c *clientcmdapi.Config) {
				for _, cluster := range c.Clusters {
					cluster.CertificateAuthorityData = authorityOf(t, fleettest.Cluster(t, "hub").Kubeconfig())
				}
			})),
			give(good), hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, "into certificate-authority-data", false,
		},
	}
}

var (
	everything = []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	withoutNodes = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	}
)

// edit changes a kubeconfig.
func edit(t testing.TB, kubeconfig []byte, f func(*clientcmdapi.Config)) []byte {
	t.Helper()
	c, err := clientcmd.Load(kubeconfig)
	testkit.Must(t, err)
	f(c)
	data, err := clientcmd.Write(*c)
	testkit.Must(t, err)
	return data
}

// besideToken returns the data of a Secret with a valid token of the remote, and this CA.
func besideToken(t testing.TB, remote *fleet.Cluster, ca []byte) map[string][]byte {
	t.Helper()
	token, err := remote.MintToken(t.Context(), fleet.User{Name: "beside-token", Rules: everything})
	testkit.Must(t, err)
	return map[string][]byte{"token": []byte(token.Config().BearerToken), "server": []byte(remote.Server()), "ca.crt": ca}
}

// A CA that is not the server's is TLSFailed, even if an app runs and keeps the previous CA.
func TestCluster_WrongAuthorityAfterRotation(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	other := authorityOf(t, fleettest.Cluster(t, "hub").Kubeconfig())
	good := besideToken(t, remote, authorityOf(t, remote.Kubeconfig()))
	name := h.name("a")
	h.putSecret(name, good)
	h.newCluster(name, nil)
	h.expectReady(name)
	epoch := h.info(name).Epoch
	bad := maps.Clone(good)
	bad["ca.crt"] = other
	h.putSecret(name, bad)
	c := h.expect(name, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed)
	if info := h.info(name); info.State != state.StateReady || info.Epoch != epoch {
		t.Errorf("the previous app does not keep running: %+v", info)
	}
	if text := summary(c); !strings.Contains(text, "into ca.crt") || strings.Contains(text, hubv1.ReasonInvalidKubeconfig) {
		t.Errorf("the message does not name the key: %s", text)
	}
	h.putSecret(name, good)
	h.expectReady(name)
	if now := h.info(name).Epoch; now != epoch {
		t.Errorf("got epoch %d, want %d", now, epoch)
	}
}

// If a remote rejects the credentials, its identity and its permissions are unknown.
func TestCluster_UnauthorizedConfirmsNothing(t *testing.T) {
	t.Parallel()
	needs := registry.NewModule("needs", registry.ModuleOptions{
		Remote: fx.Invoke(func(registry.Remote) {}),
		Rules:  []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
	})
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{needs} })
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	token, err := remote.MintToken(t.Context(), fleet.User{Name: name, Rules: everything})
	h.must(err)
	h.putKubeconfig(name, token.Kubeconfig())
	h.newCluster(name, nil)
	h.expect(name, hubv1.ConditionAuthorized, metav1.ConditionTrue, hubv1.ReasonAllowed)
	h.expectReady(name)
	h.must(token.Revoke(context.WithoutCancel(t.Context())))
	h.expect(name, hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnauthorized)
	h.expect(name, hubv1.ConditionAuthorized, metav1.ConditionUnknown, hubv1.ReasonUnauthorized)
	h.expect(name, hubv1.ConditionIdentityConfirmed, metav1.ConditionUnknown, hubv1.ReasonUnauthorized)
	h.putKubeconfig(name, remote.Kubeconfig())
	h.expectReady(name)
	h.expect(name, hubv1.ConditionAuthorized, metav1.ConditionTrue, hubv1.ReasonAllowed)
}

func authorityOf(t testing.TB, kubeconfig []byte) (ca []byte) {
	t.Helper()
	edit(t, kubeconfig, func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			ca = bytes.Clone(cluster.CertificateAuthorityData)
		}
	})
	return ca
}

// mint returns a kubeconfig with an administrator's token that expires after a lifetime.
func mint(t testing.TB, c *fleet.Cluster, user string, lifetime time.Duration) []byte {
	t.Helper()
	credential, err := c.MintToken(t.Context(), fleet.User{Name: user, Rules: everything, Lifetime: lifetime})
	testkit.Must(t, err)
	return credential.Kubeconfig()
}

// mintCertificate returns a kubeconfig with an administrator's certificate that expires after a lifetime.
func mintCertificate(t testing.TB, c *fleet.Cluster, user string, lifetime time.Duration) []byte {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: user, Rules: everything, Lifetime: lifetime})
	testkit.Must(t, err)
	return credential.Kubeconfig()
}

// withRights returns a kubeconfig for a user, and grants exactly these rules to the user.
func withRights(t testing.TB, c *fleet.Cluster, user string, rules []rbacv1.PolicyRule) []byte {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: user, Rules: rules})
	testkit.Must(t, err)
	return credential.Kubeconfig()
}
