// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

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
