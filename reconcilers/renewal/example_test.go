// SPDX-License-Identifier: Apache-2.0

package renewal_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// A Secret that registers a remote by itself, and whose token the hub renews.
func Example() {
	token, authority := []byte("..."), []byte("...")
	_ = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hubv1.DefaultNamespace, Name: "edge-eu-1",
			Labels:      map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
			Annotations: map[string]string{hubv1.AnnotationRenewToken: "kube-system/clusterfx-hub"},
		},
		Data: map[string][]byte{"token": token, "server": []byte("https://10.4.0.11:6443"), "ca.crt": authority},
	}
}
