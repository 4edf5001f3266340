// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// register creates a labelled Secret for each remote, of which the hub makes a Cluster.
func (d *demo) register(ctx context.Context) error {
	d.progress.step("registering %s by Secret", number(len(d.remotes), "cluster"))
	for _, r := range d.remotes {
		own := r.labels()
		kubeconfig, err := d.remoteAccount(ctx, r, own)
		if err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:        r.Name(),
				Namespace:   hubv1.DefaultNamespace,
				Labels:      map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
				Annotations: map[string]string{hubv1.AnnotationClusterLabels: labels.FormatLabels(own)},
			},
			Data: map[string][]byte{"kubeconfig": kubeconfig},
		}
		if err := d.client.Create(ctx, secret); err != nil {
			return fmt.Errorf("create the Secret for %s: %w", r.Name(), err)
		}
	}
	return nil
}
