// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
)

// processRows are about the processes of a remote. They run one after the other, because they share one cluster.
func processRows() []row {
	return []row{
		{name: "API server killed", run: killed},
		{name: "API server frozen", run: frozen},
		{name: "certificate of the API server expired", run: badCertificate(-time.Hour, -time.Minute)},
		{name: "certificate of the API server not valid yet", run: badCertificate(time.Hour, 2*time.Hour)},
	}
}

func killed(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(mortal))
	r.register()
	r.expectReady(patience)
	must(t, r.on.Kill())
	r.since = time.Now()
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonUnreachable, detectRefused)
	r.expectNotReady(hubv1.ReasonUnreachable)
	must(t, r.on.Restart(t.Context()))
	r.since = time.Now()
	r.expectReady(recovered)
	r.expectWorking()
}

// frozen is an API server that keeps its connections and accepts new connections, but does not respond.
func frozen(t *testing.T, s *stage) {
	t.Helper()
	r, late := s.remoteOf(t, s.cluster(mortal)), s.newRemote(t, nameOf(t)+"-at-start", s.cluster(mortal))
	r.register()
	r.expectReady(patience)
	must(t, r.on.Pause())
	t.Cleanup(func() { _ = r.on.Resume() })
	r.since = time.Now()
	late.register()
	late.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut, detectRefused)
	r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTimedOut, detectSilent)
	r.expectNotReady(hubv1.ReasonTimedOut)
	must(t, r.on.Resume())
	r.since = time.Now()
	late.since = r.since
	for _, one := range []*remote{r, late} {
		one.expectReady(recovered)
		one.expectWorking()
	}
}

// badCertificate is an API server whose certificate is replaced, while it runs, by a certificate that is valid at
// another time.
func badCertificate(from, to time.Duration) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) {
		t.Helper()
		r := s.remoteOf(t, s.cluster(mortal))
		r.register(quick)
		r.expectReady(patience)
		good := replaceCertificate(t, r.on, time.Now().Add(from), time.Now().Add(to))
		t.Cleanup(good)
		awaitCertificate(t, r.on, false)
		r.breakConnections()
		r.expect(hubv1.ConditionReachable, metav1.ConditionFalse, hubv1.ReasonTLSFailed, detectRefused)
		r.expectMessage(hubv1.ConditionReachable, "has expired or is not valid yet")
		r.expectNotReady(hubv1.ReasonTLSFailed)
		good()
		awaitCertificate(t, r.on, true)
		r.since = time.Now()
		r.expectReady(recovered)
		r.expectWorking()
	}
}

// breakConnections resets the connections, so that the hub connects again.
func (r *remote) breakConnections() {
	r.t.Helper()
	r.set(fault.Reset())
	r.set(fault.Pass())
}
