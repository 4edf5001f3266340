// SPDX-License-Identifier: Apache-2.0

package hubtest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A Secret alone registers a remote, with the labels of its annotation, and still registers it after a rotation of the
// token.
func TestRemote_RegisterBySecret(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Modules(echo()))
	edge := hub.NewRemote("edge")
	edge.RegisterBySecret(func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, hubv1.AnnotationClusterLabels, "region=eu")
	})
	edge.WaitReady()
	edge.WaitModule("echo", hubv1.ModuleRunning)
	testkit.Equal(t, edge.Cluster().Labels["region"], "eu", "label region")
	edge.RotateToken()
	if labels := secretOf(t, hub, edge).Labels; labels[hubv1.LabelCluster] != hubv1.LabelClusterValue {
		t.Errorf("rotated Secret no longer registers the remote: got labels %v", labels)
	}
	edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterPaused })
	edge.Change(func(c *hubv1.Cluster) { c.Spec.State = hubv1.ClusterActive })
	edge.WaitReady()
	edge.Deregister()
	before := hub.Baseline()
	edge.Register()
	edge.WaitReady()
	edge.Deregister()
	before.Wait()
}
