// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// Faults F35 and F36: a Secret with a token that the remote rejects never stops a working app.
func TestCluster_CredentialsThatTheRemoteRefuses(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	good := mint(t, remote, name, longLife)
	h.putKubeconfig(name, good)
	h.newCluster(name, nil)
	first := h.expectReady(name)
	epoch := h.info(name).Epoch
	finish := h.borrow(name)

	h.putKubeconfig(name, withToken(t, good, "a-wrong-token"))
	h.expectNotInUse(name, first)
	if now := h.info(name).Epoch; now != epoch {
		t.Errorf("got epoch %d, want %d", now, epoch)
	}
	h.expectCounts(name, map[string]int{hubv1.ReasonNotInUse: 1, "CredentialsRotated": 0})
	h.expectWarning(name, hubv1.ReasonNotInUse)

	h.putKubeconfig(name, mint(t, remote, name+"-next", longLife))
	h.expectCounts(name, map[string]int{"CredentialsRotated": 1})
	next := h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionTrue, hubv1.ReasonValid)
	inUse := next.Status.Credentials.Fingerprint
	if inUse != h.info(name).CredentialName || inUse == first.Status.Credentials.Fingerprint {
		t.Errorf("the credential %s is in use, the status has %s", h.info(name).CredentialName, inUse)
	}
	finish()
	// Ready was always True: otherwise its return to True would have an event.
	h.expectCounts(name, map[string]int{hubv1.ReasonReady: 1, hubv1.ReasonUnauthorized: 0})

	h.putKubeconfig(name, withToken(t, good, "another-wrong-token"))
	fingerprint := h.expectNotInUse(name, next)
	h.demand(name, fingerprint)
	h.putKubeconfig(name, good)
	h.expectReady(name)
}

// demand makes the hub use credentials by their fingerprint, and waits until the hub does so although the remote
// rejects them.
func (h *hub) demand(name, fingerprint string) {
	h.t.Helper()
	h.change(name, func(c *hubv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAcceptCredentials, fingerprint)
	})
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonUnauthorized)
	if c.Status.Credentials.Fingerprint != fingerprint {
		h.t.Errorf("the annotation demands credentials %s, in use are %+v", fingerprint, c.Status.Credentials)
	}
}

// withToken returns a kubeconfig with a token for its users.
func withToken(t *testing.T, kubeconfig []byte, token string) []byte {
	t.Helper()
	return edit(t, kubeconfig, func(c *clientcmdapi.Config) {
		for _, user := range c.AuthInfos {
			*user = clientcmdapi.AuthInfo{Token: token}
		}
	})
}

// expectNotInUse waits until the status of a Cluster reports that the remote rejects the credentials in its Secret,
// checks that the previous credentials are in use, and returns the fingerprint from the message.
func (h *hub) expectNotInUse(name string, before *hubv1.Cluster) string {
	h.t.Helper()
	c := h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonNotInUse)
	expectCondition(h.t, c, hubv1.ConditionReady, metav1.ConditionTrue)
	expectCondition(h.t, c, hubv1.ConditionReachable, metav1.ConditionTrue)
	if c.Status.Credentials != before.Status.Credentials {
		h.t.Errorf("got credentials in use %+v, want %+v", c.Status.Credentials, before.Status.Credentials)
	}
	message := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionCredentialsValid).Message
	if strings.Contains(message, "wrong-token") {
		h.t.Errorf("the message contains the token: %s", message)
	}
	_, fingerprint, ok := strings.Cut(message, hubv1.AnnotationAcceptCredentials+"=")
	if !ok || fingerprint == "" || fingerprint == c.Status.Credentials.Fingerprint {
		h.t.Fatalf("the message has no fingerprint to accept: %s", message)
	}
	return fingerprint
}

// expectCounts waits until the events with these reasons have these counts.
func (h *hub) expectCounts(name string, want map[string]int) {
	h.t.Helper()
	h.eventually(func() error {
		got := h.events(name)
		for reason, n := range want {
			if got[reason] != n {
				return fmt.Errorf("got events %v, want %v", got, want)
			}
		}
		return nil
	})
}

func (h *hub) expectWarning(name, reason string) {
	h.t.Helper()
	for _, e := range (&stage{hub: h, name: name}).told() {
		if e.Reason == reason && e.Type != corev1.EventTypeWarning {
			h.t.Errorf("the event %s has type %s, want Warning", reason, e.Type)
		}
	}
}

// borrow takes leases of a Cluster without a pause. The returned function ends that, and fails the test if a lease
// failed.
func (h *hub) borrow(name string) (finish func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	calls := 0
	go func() {
		for ctx.Err() == nil {
			err := h.registry.WithClient(context.WithoutCancel(ctx), registry.ClusterName(name),
				func(ctx context.Context, remote client.Client) error {
					var namespaces corev1.NamespaceList
					return remote.List(ctx, &namespaces, client.Limit(1))
				})
			if err != nil {
				done <- err
				return
			}
			calls++
		}
		done <- nil
	}()
	return func() {
		h.t.Helper()
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("a lease failed after %d leases: %v", calls, err)
		}
	}
}
