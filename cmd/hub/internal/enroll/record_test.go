// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// MadeByRegister reports whether register made the Secret for the Cluster in this hub. rotate and check depend on it.
func TestMadeByRegister(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"made by hand":            {nil, false},
		"made by register":        {map[string]string{annotationAccount: "kube-system/clusterfx-edge", annotationOwner: "hub-id/edge"}, true},
		"of another Cluster":      {map[string]string{annotationAccount: "kube-system/clusterfx-edge", annotationOwner: "hub-id/other"}, false},
		"of a hub of before":      {map[string]string{annotationAccount: "kube-system/clusterfx-edge", annotationOwner: "old-id/edge"}, false},
		"with the owner alone":    {map[string]string{annotationOwner: "hub-id/edge"}, false},
		"with a wrong annotation": {map[string]string{annotationAccount: "clusterfx-edge", annotationOwner: "hub-id/edge"}, false},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: one.annotations}}
		testkit.Equal(t, MadeByRegister(secret, "hub-id", "edge"), one.want, "a Secret", name)
	}
}
