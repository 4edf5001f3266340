// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Promise: the hub works in a remote that it cannot dial, through the tunnel of its agent; a revoked key and an agent that is away
// are TunnelDown, and nothing else.
func TestTunnels(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("a"), hubtest.Modules(echo()), hubtest.Tunnels())
	a := hub.Remote("a")
	hub.Eventually(func() error {
		status := a.Cluster().Status.Tunnel
		if status.Replica == "" || status.AgentVersion == "" || status.ConnectedTime.IsZero() || status.KeyFingerprint == "" {
			return errors.New("it lacks something")
		}
		return nil
	})
	t.Log(a.Cluster().Status.Tunnel)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "a"}}
	accepted := func(keys string) {
		t.Helper()
		before := secret.DeepCopy()
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTunnelKeys, keys)
		testkit.Must(t, hub.Client().Patch(t.Context(), secret, client.MergeFrom(before)))
	}
	testkit.Must(t, hub.Client().Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	keys := secret.Annotations[hubv1.AnnotationTunnelKeys]
	accepted("")
	a.WaitNotReady(hubv1.ReasonTunnelDown)
	accepted(keys)
	a.WaitReady()
}
