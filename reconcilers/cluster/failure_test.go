// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
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
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
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

// Faults F1, F7, F9 to F13, among others.
func TestCluster_EachFailureHasItsReasonAndHealsByItself(t *testing.T) {
	t.Parallel()
	remote := fleettest.Cluster(t, "one")
	h := newHub(t, func(o *hubOptions) { o.modules = append(modules.All(), undeclared()) })
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
	good, other := remote.Kubeconfig(), authorityOf(t, fleettest.Cluster(t, "hub").Kubeconfig())
	give := func(data []byte) func(*hub, string) {
		return func(h *hub, name string) { h.putKubeconfig(name, data) }
	}
	invalid := func(reason, says string, data []byte) failure {
		return failure{give(data), give(good), hubv1.ConditionCredentialsValid, metav1.ConditionFalse, reason, says, true}
	}
	return map[string]failure{
		"missing secret": {
			nil, give(good), hubv1.ConditionCredentialsValid, metav1.ConditionFalse,
			hubv1.ReasonSecretNotFound, "create it", false,
		},
		"wrong key": {
			func(h *hub, name string) { h.putSecret(name, map[string][]byte{"oops": good}) },
			give(good), hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonKeyNotFound, "kubeconfig", false,
		},
		"not a kubeconfig": invalid(hubv1.ReasonInvalidKubeconfig, "", []byte("hello")),
		"exec plugin": invalid(hubv1.ReasonExecNotAllowed, "exec", edit(t, good, func(c *clientcmdapi.Config) {
			for _, user := range c.AuthInfos {
				*user = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					Command: "aws", APIVersion: "client.authentication.k8s.io/v1",
					InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}}
			}
		})),
		"forbidden address": invalid(hubv1.ReasonAddressNotAllowed, "169.254.169.254", edit(t, good, func(c *clientcmdapi.Config) {
			for _, cluster := range c.Clusters {
				cluster.Server = "https://169.254.169.254"
			}
		})),
		"expired token":       invalid(hubv1.ReasonExpired, "expired", mint(t, remote, "expired", -time.Minute)),
		"expired certificate": invalid(hubv1.ReasonExpired, "expired", mintCertificate(t, remote, "expired-certificate", -time.Minute)),
		"wrong authority": {
			give(edit(t, good, func(c *clientcmdapi.Config) {
				for _, cluster := range c.Clusters {
					cluster.CertificateAuthorityData = authorityOf(t, fleettest.Cluster(t, "hub").Kubeconfig())
				}
			})),
			give(good), hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, "into certificate-authority-data", false,
		},
		"wrong authority beside a token": {
			func(h *hub, name string) { h.putSecret(name, besideToken(h.t, remote, other)) },
			give(good), hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, "into ca.crt", false,
		},
		"no authority beside a token": {
			func(h *hub, name string) { h.putSecret(name, besideToken(h.t, remote, []byte("hello"))) },
			give(good), hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonInvalidKubeconfig, "ca.crt", true,
		},
		"closed port": {
			give(edit(t, good, func(c *clientcmdapi.Config) {
				for _, cluster := range c.Clusters {
					cluster.Server = "https://127.0.0.1:1"
				}
			})),
			give(good), hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable, "", false,
		},
		"revoked token": {
			give(revoked(t, remote)), give(good),
			hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnauthorized, "Secret", false,
		},
		"missing right": {
			give(withRights(t, remote, "some-rights", withoutNodes)),
			func(h *hub, _ string) { withRights(h.t, remote, "some-rights", everything) },
			hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonForbidden, "undeclared", false,
		},
	}
}

func TestCluster_AddressThatANameLeadsTo(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) {
		// The policy rejects an address when the hub reads the kubeconfig, and a name only when the hub dials it.
		policy := kubeconfig.Policy{DenyCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		o.settings.Policy, o.registry.Policy = policy, policy
	})
	name := h.name("a")
	h.putKubeconfig(name, edit(t, fleettest.Cluster(t, "one").Kubeconfig(), func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			cluster.Server = strings.Replace(cluster.Server, "127.0.0.1", "localhost", 1)
		}
	}))
	h.newCluster(name, nil)
	c := h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonAddressNotAllowed)
	expectCondition(t, c, hubv1.ConditionReachable, metav1.ConditionUnknown)
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
	if err != nil {
		t.Fatal(err)
	}
	f(c)
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// besideToken returns the data of a Secret with a valid token of the remote, and this CA.
func besideToken(t testing.TB, remote *fleet.Cluster, ca []byte) map[string][]byte {
	t.Helper()
	token, err := remote.MintToken(t.Context(), fleet.User{Name: "beside-token", Rules: everything})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return credential.Kubeconfig()
}

// mintCertificate returns a kubeconfig with an administrator's certificate that expires after a lifetime.
func mintCertificate(t testing.TB, c *fleet.Cluster, user string, lifetime time.Duration) []byte {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: user, Rules: everything, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return credential.Kubeconfig()
}

// revoked returns a kubeconfig with a revoked token.
func revoked(t testing.TB, c *fleet.Cluster) []byte {
	t.Helper()
	credential, err := c.MintToken(t.Context(), fleet.User{Name: "revoked", Rules: everything})
	if err != nil {
		t.Fatal(err)
	}
	if err := credential.Revoke(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return credential.Kubeconfig()
}

// withRights returns a kubeconfig for a user, and grants exactly these rules to the user.
func withRights(t testing.TB, c *fleet.Cluster, user string, rules []rbacv1.PolicyRule) []byte {
	t.Helper()
	credential, err := c.MintCertificate(t.Context(), fleet.User{Name: user, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return credential.Kubeconfig()
}
