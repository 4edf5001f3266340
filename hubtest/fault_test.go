// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/hubtest"
)

func TestRemote_Faults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		begin  func(*hubtest.Remote)
		reason string
		end    func(*hubtest.Remote)
	}{
		"Blackhole":         {(*hubtest.Remote).Blackhole, hubv1.ReasonTimedOut, (*hubtest.Remote).Repair},
		"Refuse":            {(*hubtest.Remote).Refuse, hubv1.ReasonUnreachable, (*hubtest.Remote).Repair},
		"Break":             {func(r *hubtest.Remote) { r.Break(fault.Hold()) }, hubv1.ReasonTimedOut, (*hubtest.Remote).Repair},
		"Kill":              {(*hubtest.Remote).Kill, hubv1.ReasonUnreachable, (*hubtest.Remote).Restart},
		"RevokeToken":       {(*hubtest.Remote).RevokeToken, hubv1.ReasonUnauthorized, (*hubtest.Remote).RotateToken},
		"ExpireCertificate": {(*hubtest.Remote).ExpireCertificate, hubv1.ReasonExpired, (*hubtest.Remote).RotateToken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
			edge := hub.Remote("edge")
			expectEcho(t, hub, edge, "before")
			tc.begin(edge)
			edge.WaitNotReady(tc.reason)
			if err := ask(t.Context(), hub, edge); err == nil {
				t.Error("request to the remote succeeds during the fault")
			}
			tc.end(edge)
			edge.WaitReady()
			expectEcho(t, hub, edge, "after")
		})
	}
}

func TestRemote_Slow(t *testing.T) {
	t.Parallel()
	const late = 300 * time.Millisecond
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	before := epoch(t, hub, edge)
	edge.Slow(late)
	began := time.Now()
	if err := ask(t.Context(), hub, edge); err != nil || time.Since(began) < 2*late {
		t.Errorf("request to a slow remote took %s: %v", time.Since(began), err)
	}
	expectEcho(t, hub, edge, "slow")
	edge.Repair()
	hub.Eventually(func() error { return within(late, func() error { return ask(t.Context(), hub, edge) }) })
	if now := epoch(t, hub, edge); now != before {
		t.Errorf("app of a slow remote was replaced: got epoch %d, want %d", now, before)
	}
}

func TestRemote_RestartKeepsTheData(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	edge.Create(configMap("kept"))
	edge.Restart()
	if err := edge.Client().Get(t.Context(), client.ObjectKeyFromObject(configMap("kept")), configMap("kept")); err != nil {
		t.Error(err)
	}
	hub.Eventually(func() error { return ask(t.Context(), hub, edge) })
	edge.WaitReady()
	expectEcho(t, hub, edge, "again")
}

func TestRemote_RotateTokenUnderTheApp(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(echo()))
	edge := hub.Remote("edge")
	before, first := epoch(t, hub, edge), secretOf(t, hub, edge)
	for _, text := range []string{"one", "two"} {
		edge.RotateToken()
		if err := ask(t.Context(), hub, edge); err != nil {
			t.Errorf("request with the new token fails: %v", err)
		}
		expectEcho(t, hub, edge, text)
	}
	if now := epoch(t, hub, edge); now != before {
		t.Errorf("app was replaced: got epoch %d, want %d", now, before)
	}
	if string(secretOf(t, hub, edge).Data["kubeconfig"]) == string(first.Data["kubeconfig"]) {
		t.Error("Secret is unchanged after two rotations")
	}
}

// secretOf returns the Secret with the credentials of a remote.
func secretOf(t testing.TB, hub *hubtest.Hub, remote *hubtest.Remote) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: remote.Name()}}
	if err := hub.Client().Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	return s
}
