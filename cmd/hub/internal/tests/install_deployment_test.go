// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
)

func deployment(t *testing.T, all []*unstructured.Unstructured) appsv1.Deployment {
	t.Helper()
	for _, object := range all {
		if object.GetKind() == "Deployment" {
			return into[appsv1.Deployment](t, object)
		}
	}
	t.Fatal("there is no Deployment")
	return appsv1.Deployment{}
}

// A replica has the name of its Pod, and more time to end than the hub needs. Pods are replaced one after the other, and none before
// its successor works; a drain of nodes takes one at a time.
func TestDeployment_Replicas(t *testing.T) {
	t.Parallel()
	all := objects(t, install.Options{})
	spec := deployment(t, all).Spec
	pod := spec.Template.Spec
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if needs := process.EndsWithin() + logging.StopTimeout; grace <= needs || grace > needs+5*time.Second {
		t.Errorf("a Pod has %s to end, and the hub takes up to %s", grace, needs)
	}
	update := spec.Strategy.RollingUpdate
	if *spec.Replicas != 2 || update.MaxSurge.IntValue() != 1 || update.MaxUnavailable.IntValue() != 0 {
		t.Errorf("the Deployment is %+v", spec)
	}
	if ready := time.Duration(spec.MinReadySeconds) * time.Second; ready <= replica.DefaultDuration {
		t.Errorf("a Pod counts after %s, and the Lease of one that has crashed is for %s", ready, replica.DefaultDuration)
	}
	budget := into[policyv1.PodDisruptionBudget](t, find(t, all, "PodDisruptionBudget/clusterfx-system/clusterfx-hub"))
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("a drain may take %s Pods at a time", budget.Spec.MaxUnavailable)
	}
	hub := pod.Containers[0]
	named := corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	if !slices.Contains(hub.Args, "--replica-name=$(POD_NAME)") || !slices.ContainsFunc(hub.Env, func(e corev1.EnvVar) bool { return cmp.Equal(e, named) }) {
		t.Errorf("the hub has the arguments %v and the environment %v", hub.Args, hub.Env)
	}
}

// Go's memory limit is soft: it must be below the limit at which the hub is killed, and near it.
func TestDeployment_MemoryLimits(t *testing.T) {
	t.Parallel()
	hub := deployment(t, objects(t, install.Options{})).Spec.Template.Spec.Containers[0]
	hard := hub.Resources.Limits.Memory().Value()
	for _, env := range hub.Env {
		if env.Name != "GOMEMLIMIT" {
			continue
		}
		soft, err := resource.ParseQuantity(env.Value[:len(env.Value)-1]) // Go writes MiB for Kubernetes' Mi.
		must(t, err)
		if share := float64(soft.Value()) / float64(hard); share < 0.85 || share > 0.95 {
			t.Errorf("GOMEMLIMIT is %.0f %% of the limit, want 85 to 95", 100*share)
		}
		return
	}
	t.Error("GOMEMLIMIT is not set")
}
