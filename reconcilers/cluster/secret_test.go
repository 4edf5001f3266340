// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// longLife is longer than the time before expiration at which the hub warns.
const longLife = 30 * 24 * time.Hour

// Faults F35, F36 and F38: a Secret changes, becomes unusable or is deleted while its app runs.
func TestCluster_SecretOfARunningApp(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	good := mint(t, remote, "first", longLife)
	h.putKubeconfig(name, good)
	h.newCluster(name, nil)
	first := h.expectReady(name)
	epoch := h.info(name).Epoch

	stillRuns := func(t *testing.T) {
		t.Helper()
		if info := h.info(name); info.State != state.StateReady || info.Epoch != epoch {
			t.Errorf("the app is %s in epoch %d, want Ready in epoch %d", info.State, info.Epoch, epoch)
		}
		err := h.registry.WithClient(t.Context(), registry.ClusterName(name), func(context.Context, client.Client) error { return nil })
		if err != nil {
			t.Errorf("lease: %v", err)
		}
	}
	for reason, spoil := range map[string]func(){
		hubv1.ReasonExpired:        func() { h.putKubeconfig(name, mint(t, remote, "late", -time.Minute)) },
		hubv1.ReasonSecretNotFound: func() { h.deleteSecret(name) },
	} {
		t.Run("keeps its last good credential when the new credential is "+reason, func(t *testing.T) {
			spoil()
			c := h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, reason)
			if reason == hubv1.ReasonExpired {
				expectCondition(t, c, hubv1.ConditionReady, metav1.ConditionTrue)
			} else {
				expectCondition(t, c, hubv1.ConditionReady, metav1.ConditionFalse)
			}
			if c.Status.Credentials != first.Status.Credentials {
				t.Errorf("got credentials in use %+v, want %+v", c.Status.Credentials, first.Status.Credentials)
			}
			expectCondition(t, c, hubv1.ConditionModulesReady, metav1.ConditionTrue)
			stillRuns(t)
			h.putKubeconfig(name, good)
			h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionTrue, hubv1.ReasonValid)
			h.expectReady(name)
			stillRuns(t)
		})
	}
	t.Run("takes up a rotated credential without a new app", func(t *testing.T) {
		h.putKubeconfig(name, mint(t, remote, "second", longLife))
		h.eventually(func() error {
			if now := h.get(name).Status.Credentials; now.Fingerprint == first.Status.Credentials.Fingerprint {
				return fmt.Errorf("got credentials %+v, want the rotated credentials", now)
			}
			return nil
		})
		h.expectReady(name)
		stillRuns(t)
		h.eventually(func() error {
			if got := h.events(name)["CredentialsRotated"]; got != 1 {
				return fmt.Errorf("got %d events, want 1", got)
			}
			return nil
		})
	})
	t.Run("gets a new app when the server is another one", func(t *testing.T) {
		h.putKubeconfig(name, edit(t, good, func(c *clientcmdapi.Config) {
			for _, cluster := range c.Clusters {
				cluster.TLSServerName = "localhost"
			}
		}))
		h.eventually(func() error {
			if now := h.info(name).Epoch; now == epoch {
				return fmt.Errorf("got epoch %d, want a new epoch", now)
			}
			return nil
		})
		h.expectReady(name)
	})
}

// Faults F9 and F10: the hub announces the expiration of credentials, and reports it within a minute.
func TestCluster_CredentialsExpire(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "nothing: TestJudge shows when the result changes; that the hub reports it then takes credentials that expire")
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	for kind, mint := range map[hubv1.CredentialType]func(testing.TB, *fleet.Cluster, string, time.Duration) []byte{
		hubv1.CredentialToken:             mint,
		hubv1.CredentialClientCertificate: mintCertificate,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := *h
			h.t = t
			name := h.name(strings.ToLower(string(kind)))
			h.putKubeconfig(name, mint(t, remote, name, 24*time.Second))
			h.newCluster(name, nil)
			c := h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionTrue, hubv1.ReasonExpiringSoon)
			if c.Status.Credentials.Type != kind || c.Status.Credentials.ExpirationTime.IsZero() {
				t.Errorf("got credentials %+v, want the type and the expiration", c.Status.Credentials)
			}
			end := c.Status.Credentials.ExpirationTime.Time
			h.expectReady(name)
			c = h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonExpired)
			if late := time.Since(end); late < 0 || late > time.Minute {
				t.Errorf("the hub reported the expiration %s after it, want a minute at most", late)
			}
			expectCondition(t, c, hubv1.ConditionStalled, metav1.ConditionTrue)
			h.putKubeconfig(name, mint(t, remote, name, longLife))
			h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionTrue, hubv1.ReasonValid)
			h.expectReady(name)
			h.eventually(func() error {
				got := h.events(name)
				if got["ExpiringSoon"] != 1 || got["Expired"] != 1 || got["CredentialsRotated"] != 1 {
					return fmt.Errorf("got events %v, want one of each kind", got)
				}
				return nil
			})
		})
	}
}

func TestCluster_Pause(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	set := func(state hubv1.ClusterState) { h.change(name, func(c *hubv1.Cluster) { c.Spec.State = state }) }

	set(hubv1.ClusterPaused)
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonPaused)
	expectCondition(t, c, hubv1.ConditionReachable, metav1.ConditionUnknown)
	expectCondition(t, c, hubv1.ConditionModulesReady, metav1.ConditionUnknown)
	h.eventually(func() error {
		if info := h.info(name); info.State != state.StatePaused {
			return fmt.Errorf("got state %s, want Paused", info.State)
		}
		return nil
	})
	set(hubv1.ClusterActive)
	h.expectReady(name)
}
