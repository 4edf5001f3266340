// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

type registration struct{ Secret, Cluster string }

// registrationsOfSecret is called with the old and the new object of an update, so that a renamed Cluster is reconciled, too.
func registrationsOfSecret(_ context.Context, secret client.Object) []registration {
	if name := wantedName(secret); name != "" {
		return []registration{{Secret: secret.GetName(), Cluster: name}}
	}
	return nil
}

// registrationsOfCluster returns the Secret that it was made from, and those that ask for its name.
func (m *reconciler) registrationsOfCluster(_ context.Context, cluster client.Object) []registration {
	name := cluster.GetName()
	secrets := m.requests.Of(name)
	if from := cluster.GetAnnotations()[hubv1.AnnotationSecretName]; from != "" && !slices.Contains(secrets, from) {
		secrets = append(secrets, from)
	}
	var all []registration
	for _, secret := range secrets {
		all = append(all, registration{Secret: secret, Cluster: name})
	}
	return all
}

func wantedName(secret client.Object) string {
	labelled := secret.GetLabels()[hubv1.LabelCluster] == hubv1.LabelClusterValue
	if !labelled || !secret.GetDeletionTimestamp().IsZero() {
		return ""
	}
	return cmp.Or(secret.GetAnnotations()[hubv1.AnnotationClusterName], secret.GetName())
}

func madeFrom(cluster *hubv1.Cluster, secret string) bool {
	return cluster != nil && cluster.Annotations[hubv1.AnnotationSecretUID] != "" &&
		cluster.Annotations[hubv1.AnnotationSecretName] == secret
}

func missingSince(cluster *hubv1.Cluster) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, cluster.Annotations[hubv1.AnnotationSecretMissingSince])
	return since, err == nil
}

// stamp copies name, UID and labels of a Secret to its Cluster, and returns the refused labels. On an error the
// Cluster keeps its labels.
func stamp(cluster *hubv1.Cluster, secret *metav1.PartialObjectMetadata) (refusedLabels, error) {
	var refused refusedLabels
	wanted, err := parseLabels(secret.Annotations[hubv1.AnnotationClusterLabels])
	if err == nil {
		refused = stampLabels(cluster, wanted)
	}
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationSecretName, secret.Name)
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationSecretUID, string(secret.UID))
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationSecretNamespace, secret.Namespace)
	delete(cluster.Annotations, hubv1.AnnotationSecretMissingSince)
	cluster.Spec.KubeconfigSecretRef.Name = secret.Name
	return refused, err
}
