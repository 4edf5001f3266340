// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// credentialRows are about the credentials of the hub and the identity of the remote.
func credentialRows() []row {
	return []row{
		{name: "cluster rebuilt behind the same address", run: otherCluster(viaOutage)},
		{
			name: "another cluster behind the same address at once", run: otherCluster((*remote).swap),
		},
		{name: "token and certificate rotated", run: rotated},
	}
}

// otherCluster is an address behind which move puts another cluster, which accepts the same credentials.
func otherCluster(move func(*remote, *fleet.Cluster)) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		other := s.cluster(twin)
		must(t, s.clientFor(t, other.Config()).Create(t.Context(), namespace(r.name)))
		r.registerAs(acceptedByBoth(t, r.on, other), quick)
		r.expectReady(patience)
		r.expectWorking()

		move(r, other)
		r.expect(hubv1.ConditionIdentityConfirmed, metav1.ConditionFalse, hubv1.ReasonIdentityChanged, detectRefused)
		r.expectNotReady(hubv1.ReasonIdentityChanged)
		stopped := time.Now()
		move(r, r.on)
		r.expectReady(recovered)
		r.expectWorking()
		requests, err := other.AuditEvents(fleet.ByAgent(r.agent()))
		must(t, err)
		for _, e := range requests {
			if e.Writes() || e.Received.After(stopped) {
				t.Errorf("the app wrote or continued in another cluster: %s", e)
			}
		}
		t.Logf("%d requests of the app reached the other cluster", len(requests))
	}
}

// viaOutage puts another server behind the remote's address while no server responds there, as when a
// cluster is rebuilt.
func viaOutage(r *remote, to *fleet.Cluster) {
	r.t.Helper()
	r.set(fault.Refuse())
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable, detectRefused)
	r.swap(to)
	r.set(fault.Pass())
}

// acceptedByBoth returns a kubeconfig for a cluster whose credentials another cluster accepts, too.
func acceptedByBoth(t *testing.T, c, other *fleet.Cluster) []byte {
	t.Helper()
	both := bytes.Join([][]byte{authorityOf(t, c.Kubeconfig()), authorityOf(t, other.Kubeconfig())}, nil)
	return edit(t, c.Kubeconfig(), func(config *clientcmdapi.Config) {
		for _, cluster := range config.Clusters {
			cluster.CertificateAuthorityData = both
		}
		for _, user := range config.AuthInfos {
			*user = clientcmdapi.AuthInfo{Token: wanderer}
		}
	})
}
