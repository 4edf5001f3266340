// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Credentials that the remote rejects are read again, and replaced by newer ones of which no watch has told yet. TestMemory counts
// the reads.
func TestCluster_CredentialsThatAreRejected(t *testing.T) {
	t.Parallel()
	remote := fleettest.Cluster(t, "one")
	h, traffic := newTrafficHub(t, nil)
	name := h.name("a")
	token, err := remote.MintToken(t.Context(), fleet.User{Name: name, Rules: everything, Lifetime: longLife})
	h.must(err)
	h.putKubeconfig(name, token.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	release := traffic.hold()
	t.Cleanup(release)
	h.putKubeconfig(name, mint(t, remote, "its-successor", 2*longLife))
	epoch := h.info(name).Epoch
	h.must(token.Revoke(context.WithoutCancel(t.Context())))
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
}
