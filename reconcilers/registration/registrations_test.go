// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

func TestStamp(t *testing.T) {
	t.Parallel()
	secret := func(labels string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "s", Namespace: "n", UID: "u", Annotations: map[string]string{hubv1.AnnotationClusterLabels: labels},
		}}
	}
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"theirs": "x"},
		Annotations: map[string]string{hubv1.AnnotationSecretMissingSince: "2026-05-01T00:00:00Z"},
	}}
	for _, step := range []struct {
		labels string
		want   map[string]string
		bad    bool
	}{
		{labels: "a=1, b=2", want: map[string]string{"theirs": "x", "a": "1", "b": "2"}},
		{labels: "b=3", want: map[string]string{"theirs": "x", "b": "3"}},
		{labels: "b", want: map[string]string{"theirs": "x", "b": "3"}, bad: true},
		{labels: "", want: map[string]string{"theirs": "x"}},
	} {
		before := maps.Clone(cluster.Annotations)
		if _, err := stamp(cluster, secret(step.labels)); (err != nil) != step.bad {
			t.Errorf("%q: got error %v", step.labels, err)
		}
		testkit.Equal(t, cluster.Labels, step.want, "labels for", step.labels)
		if step.bad && !maps.Equal(before, cluster.Annotations) {
			t.Errorf("%q: got annotations %v, want them unchanged", step.labels, cluster.Annotations)
		}
	}
	want := map[string]string{hubv1.AnnotationSecretName: "s", hubv1.AnnotationSecretUID: "u", hubv1.AnnotationSecretNamespace: "n"}
	testkit.Equal(t, cluster.Annotations, want)
	testkit.Equal(t, cluster.Spec.KubeconfigSecretRef.Name, "s", "spec", cluster.Spec)
	testkit.Equal(t, wantedName(hubcontroller.SecretMetadata()), "", "Secret without the label requests a Cluster")
	other := hubcontroller.SecretMetadata()
	other.Name, other.Labels = "s", map[string]string{hubv1.LabelCluster: "false"}
	testkit.Equal(t, wantedName(other), "", "Secret with the label, and another value, requests a Cluster")
}
