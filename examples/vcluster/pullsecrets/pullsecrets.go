// SPDX-License-Identifier: Apache-2.0

package pullsecrets

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// Item copies the pull secrets in the namespace source of the upstream cluster to the namespace Identity.TargetNamespace of
// the downstream cluster, which exists. A Secret that is the copy of another pair with the same prefix of marks is skipped.
func Item(id syncer.Identity, source string) syncer.Item {
	managedBy := id.Keys().ManagedBy
	return syncer.Of(
		&syncer.Copy[*corev1.Secret]{Called: "pull-secrets"},
		syncer.NewMirror[*corev1.Secret](id, syncer.TranslatorOptions{}),
		syncer.Options[*corev1.Secret]{Select: func(s *corev1.Secret) bool {
			return s.Namespace == source && s.Type == corev1.SecretTypeDockerConfigJson && s.Labels[managedBy] == ""
		}},
	)
}
