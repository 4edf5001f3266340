// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// A Cluster names the Secret with the credentials of a remote; all other fields have defaults. The condition Ready
// reports whether the remote can be used, as tools expect it.
func Example() {
	cluster := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-eu-1", Labels: map[string]string{"region": "eu"}},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "edge-eu-1"},
			Modules:             []string{"inventory"},
		},
	}
	fmt.Println(cluster.Name, meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady))
	// Output: edge-eu-1 false
}
