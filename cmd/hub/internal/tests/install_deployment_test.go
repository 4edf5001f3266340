// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
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
