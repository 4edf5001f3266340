// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// connectionRows are about the connection to a remote and the server at its address.
func connectionRows() []row {
	return []row{
		{name: "API server down at registration", run: brokenAtRegistration(fault.Refuse(), hubv1.ReasonUnreachable)},
		{name: "host name that does not exist", run: unknownHost},
		{name: "packets dropped at registration", run: brokenAtRegistration(fault.Blackhole(), hubv1.ReasonTimedOut)},
		{name: "TLS never answered", run: brokenAtRegistration(fault.NeverRead(), hubv1.ReasonTimedOut)},
		{name: "another certificate authority behind the address", run: anotherAuthority},
		{name: "certificate for another name", run: anotherName},
		{name: "server that moves to and fro", run: restless},
	}
}

// brokenAtRegistration is a remote that cannot be reached when it is registered.
func brokenAtRegistration(f fault.Fault, reason string) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(calm))
		r.set(f)
		r.register()
		r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, reason, detectRefused)
		r.expect(hubv1.ConditionReady, metav1.ConditionFalse, reason, detectRefused)
		r.expectNotReady(reason)
		r.set(fault.Pass())
		r.expectReady(recovered)
		r.expectWorking()
	}
}

func unknownHost(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(func(c *hubv1.ClusterSpec) { c.Server = "https://clusterfx-faults.invalid:6443" })
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable, detectRefused)
	r.expectMessage(hubv1.ConditionReachable, "was not found")
	r.update(func(c *hubv1.ClusterSpec) { c.Server = "" })
	r.expectReady(recovered)
}

// anotherAuthority is a server that is replaced by a server whose certificate no known CA has signed.
func anotherAuthority(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick)
	r.expectReady(patience)
	r.swap(s.cluster(twin))
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, detectRefused)
	r.expectNotReady(hubv1.ReasonTLSFailed)
	r.swap(r.on)
	r.expectReady(recovered)
	r.expectWorking()
}

func anotherName(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(func(c *hubv1.ClusterSpec) { c.TLSServerName = "somebody.example" })
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, detectRefused)
	r.expectMessage(hubv1.ConditionReachable, "tlsServerName")
	r.update(func(c *hubv1.ClusterSpec) { c.TLSServerName = "" })
	r.expectReady(recovered)
}

// restless is a remote whose server changes ten times a second, also while an app replaces another app. Every lease
// gets a client.
func restless(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	other := fleettest.Proxy(t, r.on.Server())
	r.register(runs(stopwatchName, lingering)) // so that apps take some time to stop
	r.expectReady(patience)
	r.expectWorking()
	finish := r.borrow(t, 4)
	const moves, pace = 60, 100 * time.Millisecond
	beat := time.NewTicker(pace)
	defer beat.Stop()
	for i := range moves {
		r.update(func(c *hubv1.ClusterSpec) { c.Server = "https://" + []*fault.Proxy{other, r.proxy}[i%2].Addr() })
		<-beat.C
	}
	r.expectReady(patience)
	r.expectWorking()
	t.Logf("%d of %d leases failed while the server moved %d times", r.failed(), finish(), moves)
}

func edit(t testing.TB, kubeconfig []byte, f func(*clientcmdapi.Config)) []byte {
	t.Helper()
	c, err := clientcmd.Load(kubeconfig)
	must(t, err)
	f(c)
	data, err := clientcmd.Write(*c)
	must(t, err)
	return data
}

// authorityOf returns the certificates that a kubeconfig trusts.
func authorityOf(t testing.TB, kubeconfig []byte) (ca []byte) {
	t.Helper()
	edit(t, kubeconfig, func(c *clientcmdapi.Config) {
		for _, cluster := range c.Clusters {
			ca = cluster.CertificateAuthorityData
		}
	})
	return ca
}
