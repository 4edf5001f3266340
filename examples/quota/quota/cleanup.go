// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
)

// Cleanup deletes the objects of the module in a remote, when its Cluster is deleted.
func Cleanup(remote client.Client) registry.CleanupStep {
	return registry.CleanupStep{Name: "quota/resourcequotas", Run: func(ctx context.Context) error {
		var all corev1.ResourceQuotaList
		if err := remote.List(ctx, &all, client.MatchingLabels{managed: "true"}); err != nil {
			return err
		}
		for i := range all.Items {
			if err := client.IgnoreNotFound(remote.Delete(ctx, &all.Items[i])); err != nil {
				return err
			}
		}
		return nil
	}}
}
