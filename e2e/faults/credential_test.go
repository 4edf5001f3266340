// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// credentialRows are about who the hub is in a remote, and who the remote is.
func credentialRows() []row {
	return []row{
		{ids: "F34", name: "cluster rebuilt behind the same address", run: rebuilt},
		{ids: "F35", name: "token and certificate rotated", run: rotated},
	}
}

// rebuilt is an address behind which there suddenly is another cluster, which accepts the credentials.
func rebuilt(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	other := s.cluster(twin)
	must(t, s.clientFor(t, other.Config()).Create(t.Context(), namespace(r.name)))
	both := bytes.Join([][]byte{authorityOf(t, r.on.Kubeconfig()), authorityOf(t, other.Kubeconfig())}, nil)
	r.registerAs(edit(t, r.on.Kubeconfig(), func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			cluster.CertificateAuthorityData = both
		}
		for _, user := range c.AuthInfos {
			*user = clientcmdapi.AuthInfo{Token: wanderer}
		}
	}), quick)
	r.expectReady(patience)
	r.expectWorking()

	r.swap(other)
	r.expect(hubv1.ConditionIdentityConfirmed, metav1.ConditionFalse, hubv1.ReasonIdentityChanged, within(detectRefused))
	r.expectNotReady(hubv1.ReasonIdentityChanged)
	stopped := time.Now()
	r.swap(r.on)
	r.expectReady(within(recovered))
	r.expectWorking()
	requests, err := other.AuditEvents(fleet.ByAgent(r.agent()))
	must(t, err)
	for _, e := range requests {
		if e.Writes() || e.Received.After(stopped) {
			t.Errorf("the app went on in another cluster: %s", e)
		}
	}
	t.Logf("%d requests of the app have reached the other cluster", len(requests))
}
