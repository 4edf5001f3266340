// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// registration is a pair that may belong together: a Secret, and the name of a Cluster that was
// made from it or should be.
type registration struct{ Secret, Cluster string }

// registrationsOfSecret returns the pair that a labelled Secret asks for. An update is mapped
// twice, as it was and as it is, so that the old name of a renamed Cluster is looked at, too.
func registrationsOfSecret(_ context.Context, secret client.Object) []registration {
	if name := wantedName(secret); name != "" {
		return []registration{{Secret: secret.GetName(), Cluster: name}}
	}
	return nil
}

// registrationsOfCluster returns the pair of a Cluster and the Secret that it was made from. The
// other Secret that may be concerned is one of the same name: it registers itself when a Cluster
// that was in its way is gone.
func registrationsOfCluster(_ context.Context, cluster client.Object) []registration {
	name := cluster.GetName()
	pairs := []registration{{Secret: name, Cluster: name}}
	if secret := cluster.GetAnnotations()[hubv1.AnnotationSecretName]; secret != "" && secret != name {
		pairs = append(pairs, registration{Secret: secret, Cluster: name})
	}
	return pairs
}

// wantedName returns the name of the Cluster that a Secret asks for, or an empty string if it asks
// for none, or does not exist.
func wantedName(secret client.Object) string {
	labelled := secret.GetLabels()[hubv1.LabelCluster] == hubv1.LabelClusterValue
	if !labelled || !secret.GetDeletionTimestamp().IsZero() {
		return ""
	}
	return cmp.Or(secret.GetAnnotations()[hubv1.AnnotationClusterName], secret.GetName())
}

// madeFrom reports whether a Cluster was made from a Secret of that name.
func madeFrom(cluster *hubv1.Cluster, secret string) bool {
	return cluster != nil && cluster.Annotations[hubv1.AnnotationSecretUID] != "" &&
		cluster.Annotations[hubv1.AnnotationSecretName] == secret
}

// missingSince returns since when the Secret of a Cluster is known to be missing, and whether it
// is.
func missingSince(cluster *hubv1.Cluster) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, cluster.Annotations[hubv1.AnnotationSecretMissingSince])
	return since, err == nil
}

// stamp writes into a Cluster what it has from its Secret. Labels that the Secret asked for before
// and does not ask for now are removed; which these are is in a copy of its annotation.
func stamp(cluster *hubv1.Cluster, secret *metav1.PartialObjectMetadata) error {
	asked := secret.Annotations[hubv1.AnnotationClusterLabels]
	wanted, err := parseLabels(asked)
	if err != nil {
		return err
	}
	if before, err := parseLabels(cluster.Annotations[hubv1.AnnotationClusterLabels]); err == nil {
		for key := range before {
			delete(cluster.Labels, key)
		}
	}
	for key, value := range wanted {
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, value)
	}
	annotate := func(key, value string) { metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, key, value) }
	annotate(hubv1.AnnotationSecretName, secret.Name)
	annotate(hubv1.AnnotationSecretUID, string(secret.UID))
	annotate(hubv1.AnnotationClusterLabels, asked)
	if asked == "" {
		delete(cluster.Annotations, hubv1.AnnotationClusterLabels)
	}
	delete(cluster.Annotations, hubv1.AnnotationSecretMissingSince)
	cluster.Spec.KubeconfigSecretRef.Name = secret.Name
	return nil
}

// errLabels says that the labels that a Secret asks for cannot be understood.
var errLabels = errors.New("the annotation " + hubv1.AnnotationClusterLabels + " must hold labels in the form key=value,key=value")

func parseLabels(text string) (labels.Set, error) {
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLabels, err)
	}
	return set, nil
}

func isLabelsError(err error) bool { return errors.Is(err, errLabels) }
