// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// pending is the status that the API server gives a new Cluster. Its observedGeneration and its unknown Ready show
// every waiting client that the hub has not seen the Cluster yet.
func pending() hubv1.ClusterStatus {
	return hubv1.ClusterStatus{
		ObservedGeneration: -1,
		Conditions: []metav1.Condition{{
			Type:               hubv1.ConditionReady,
			Status:             metav1.ConditionUnknown,
			Reason:             hubv1.ReasonPending,
			Message:            "Waiting for the hub",
			LastTransitionTime: metav1.Unix(0, 0),
		}},
	}
}

func TestCluster_Defaults(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	create(t, c, "defaults")
	got := &hubv1.Cluster{}
	testkit.Must(t, c.Get(t.Context(), client.ObjectKey{Name: "defaults"}, got))
	want := hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "defaults"},
		State:               hubv1.ClusterActive,
		Probe:               hubv1.ProbeSpec{PeriodSeconds: 5, TimeoutSeconds: 3, FailureThreshold: 3, SuccessThreshold: 1},
		Client:              hubv1.ClientSpec{QPS: 500, Burst: 1000, TimeoutSeconds: 10},
	}
	testkit.Equal(t, got.Spec, want, "spec")
	testkit.Equal(t, got.Status, pending(), "status")
}

func TestCluster_DefaultsFillGaps(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	cluster := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "gaps"},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "gaps"},
			Probe:               hubv1.ProbeSpec{PeriodSeconds: 30},
			Client:              hubv1.ClientSpec{QPS: 5},
		},
		Status: hubv1.ClusterStatus{ObservedGeneration: 1, Version: "v1.2.3"}, // users cannot set the status
	}
	createOnce(t, c, cluster)
	probe := hubv1.ProbeSpec{PeriodSeconds: 30, TimeoutSeconds: 3, FailureThreshold: 3, SuccessThreshold: 1}
	testkit.Equal(t, cluster.Spec.Probe, probe, "spec.probe")
	limits := hubv1.ClientSpec{QPS: 5, Burst: 1000, TimeoutSeconds: 10}
	testkit.Equal(t, cluster.Spec.Client, limits, "spec.client")
	testkit.Equal(t, cluster.Status, pending(), "status")
}
