// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Fault F37: if a Secret changes ten times a second for ten seconds, its last version takes effect, with bounded work.
func TestCluster_SecretThatFlaps(t *testing.T) {
	t.Parallel()
	h, traffic := newTrafficHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	good := mint(t, remote, "steady", longLife)
	elsewhere := edit(t, good, func(c *clientcmdapi.Config) { // needs another app
		for _, cluster := range c.Clusters {
			cluster.TLSServerName = "localhost"
		}
	})
	last, err := remote.MintToken(t.Context(), fleet.User{Name: "last", Rules: everything, Lifetime: 2 * longLife})
	h.must(err)
	h.putKubeconfig(name, good)
	h.newCluster(name, nil)
	h.expectReady(name)
	reads, ensured := traffic.readsOf(name), traffic.ensuredOf(name)

	const changes, pace = 100, 100 * time.Millisecond
	began := time.Now()
	beat := time.NewTicker(pace)
	defer beat.Stop()
	for i := range changes - 1 {
		h.putKubeconfig(name, [][]byte{elsewhere, []byte("not a kubeconfig"), good, remote.Kubeconfig()}[i%4])
		<-beat.C
	}
	h.putKubeconfig(name, last.Kubeconfig())
	took, ended := time.Since(began), time.Now()

	h.eventually(func() error {
		c := h.get(name)
		if got := c.Status.Credentials.ExpirationTime; !got.Equal(&metav1.Time{Time: last.Expires()}) {
			return fmt.Errorf("the credentials in use expire at %s, want %s: %s", got, last.Expires(), summary(c))
		}
		return nil
	})
	h.expectReady(name)
	reads, ensured = traffic.readsOf(name)-reads, traffic.ensuredOf(name)-ensured
	t.Logf("%d changes within %s: %d reads, %d calls of Ensure; the last change took effect %s after the end",
		changes, took, reads, ensured, time.Since(ended))
	// The first read is immediate; then one every two seconds, and the last.
	if most := 2 + int(took/(2*time.Second)); reads > most {
		t.Errorf("got %d reads, want at most %d", reads, most)
	}
	if most := 8 * (reads + 1); ensured > most { // Each read makes the remote change a few times.
		t.Errorf("got %d calls of Ensure, want at most %d", ensured, most)
	}
	h.consistently(3*time.Second, func() error { // The reads end.
		if now := traffic.readsOf(name); now-reads > 1 {
			return fmt.Errorf("got %d reads in all, want no more reads", now)
		}
		return nil
	})
}

// Fault F10: credentials that the remote rejects are read again once, and replaced by newer credentials.
func TestCluster_CredentialsThatAreRejected(t *testing.T) {
	t.Parallel()
	remote := fleettest.Cluster(t, "one")
	registered := func(t *testing.T) (*hub, *traffic, string, *fleet.Credential) {
		t.Helper()
		h, traffic := newTrafficHub(t, nil)
		name := h.name("a")
		token, err := remote.MintToken(t.Context(), fleet.User{Name: name, Rules: everything, Lifetime: longLife})
		h.must(err)
		h.putKubeconfig(name, token.Kubeconfig())
		h.newCluster(name, nil)
		h.expectReady(name)
		return h, traffic, name, token
	}
	revoke := func(t *testing.T, token *fleet.Credential) {
		t.Helper()
		if err := token.Revoke(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("are read again once", func(t *testing.T) {
		t.Parallel()
		h, traffic, name, token := registered(t)
		before := traffic.readsOf(name)
		revoke(t, token)
		c := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonUnauthorized)
		expectCondition(t, c, hubv1.ConditionCredentialsValid, metav1.ConditionTrue)
		h.eventually(func() error {
			if reads := traffic.readsOf(name) - before; reads != 1 {
				return fmt.Errorf("got %d reads after the rejection, want 1", reads)
			}
			return nil
		})
		for i := range 5 { // other changes cause no read
			h.change(name, func(c *hubv1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, "beat", fmt.Sprint(i)) })
		}
		h.consistently(3*time.Second, func() error {
			if reads := traffic.readsOf(name) - before; reads != 1 {
				return fmt.Errorf("got %d reads after the rejection, want 1", reads)
			}
			return nil
		})
		h.putKubeconfig(name, mint(t, remote, "its-heir", longLife))
		h.expectReady(name)
	})
	t.Run("are replaced by what no watch has told of yet", func(t *testing.T) {
		t.Parallel()
		h, traffic, name, token := registered(t)
		release := traffic.hold()
		t.Cleanup(release)
		h.putKubeconfig(name, mint(t, remote, "its-successor", 2*longLife))
		epoch := h.info(name).Epoch
		revoke(t, token)
		h.eventually(func() error {
			if h.info(name).Epoch == epoch {
				return fmt.Errorf("the app was not replaced: %+v", h.info(name))
			}
			return nil
		})
		h.eventually(func() error { // The outage may be too short to be reported.
			if left := time.Until(h.get(name).Status.Credentials.ExpirationTime.Time); left < longLife+longLife/2 {
				return fmt.Errorf("the credentials in use expire in %s, want the new credentials", left)
			}
			return nil
		})
		h.expectReady(name)
	})
}

// Faults F12 and F13: the hub neither dials the server of unusable credentials nor reads them repeatedly.
func TestCluster_SecretThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	h, traffic := newTrafficHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	t.Cleanup(func() { _ = listener.Close() })
	var dialled atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = conn.Close()
		}
	}()
	for reason, data := range map[string]map[string][]byte{
		hubv1.ReasonSecretNotFound: nil,
		hubv1.ReasonKeyNotFound:    {},
		hubv1.ReasonExecNotAllowed: {"kubeconfig": edit(t, remote.Kubeconfig(), func(c *clientcmdapi.Config) {
			for _, cluster := range c.Clusters {
				cluster.Server = "https://" + listener.Addr().String()
			}
			for _, user := range c.AuthInfos {
				*user = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					Command: "touch", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}}
			}
		})},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			h := *h
			h.t = t
			name := h.name(strings.ToLower(reason))
			if data != nil {
				h.putSecret(name, data)
			}
			h.newCluster(name, nil)
			h.expectReason(name, reason)
			for i := range 5 {
				h.change(name, func(c *hubv1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, "beat", fmt.Sprint(i)) })
			}
			h.consistently(2*time.Second, func() error {
				if reads := traffic.readsOf(name); reads != 1 {
					return fmt.Errorf("got %d reads, want 1", reads)
				}
				return nil
			})
			if n := dialled.Load(); n != 0 {
				t.Errorf("got %d connections, want 0", n)
			}
			began := time.Now()
			h.putKubeconfig(name, remote.Kubeconfig())
			h.expectReady(name)
			t.Logf("Ready %s after the Secret became valid", time.Since(began))
		})
	}
}

// Fault F14: the Secret and the Cluster are created in either order.
func TestCluster_SecretThatComesBeforeOrAfter(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	for i, order := range []string{"before", "after", "empty, then filled"} {
		t.Run(order, func(t *testing.T) {
			h := *h
			h.t = t
			name := h.name(fmt.Sprintf("o%d", i))
			secret := func() { h.putKubeconfig(name, remote.Kubeconfig()) }
			switch order {
			case "before":
				secret()
				h.newCluster(name, nil)
			case "after":
				h.newCluster(name, nil)
				h.expectReason(name, hubv1.ReasonSecretNotFound)
				secret()
			default:
				h.newCluster(name, nil)
				h.putSecret(name, map[string][]byte{})
				h.expectReason(name, hubv1.ReasonKeyNotFound)
				secret()
			}
			began := time.Now()
			c := h.expectReady(name) // without a wait for a periodic reconcile
			t.Logf("Ready after %s", time.Since(began))
			if meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionStalled) {
				t.Errorf("the Cluster is Stalled: %s", summary(c))
			}
		})
	}
}
