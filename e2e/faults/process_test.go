// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// processRows are about the processes of a remote. They run one after the other, because they share one cluster.
func processRows() []row {
	return []row{
		{name: "API server killed", run: killed},
		{name: "API server frozen", run: frozen},
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
