// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// refusedLabels are sorted keys of labels that a Secret asks for and its Cluster does not get.
type refusedLabels struct {
	reserved []string // keys of clusterfx.dev
	others   []string // set, changed or removed by an editor of the Cluster
}

func (r refusedLabels) note(cluster string) string {
	var why []string
	if len(r.others) > 0 {
		why = append(why, "an editor of the Cluster has set, changed or removed "+strings.Join(r.others, ", "))
	}
	if len(r.reserved) > 0 {
		why = append(why, "keys of "+hubv1.GroupName+" are reserved: "+strings.Join(r.reserved, ", "))
	}
	if len(why) == 0 {
		return ""
	}
	return fmt.Sprintf("Cluster %s does not get all labels of the annotation %s: %s",
		cluster, hubv1.AnnotationClusterLabels, strings.Join(why, "; "))
}

// stampLabels sets the labels that the Secret asks for, and removes those it no longer asks for. Labels select
// modules, so a writer of Secrets must not undo the decisions of an editor of the Cluster: a label belongs to the
// Secret while it has the value recorded at the copy. Others are never overwritten or removed, and one that an editor
// removed is not set again while the Secret asks for it.
func stampLabels(cluster *hubv1.Cluster, wanted labels.Set) refusedLabels {
	recorded, err := parseLabels(cluster.Annotations[hubv1.AnnotationClusterLabels])
	if err != nil {
		recorded = nil // The record was edited: no label is known to belong to the Secret.
	}
	var refused refusedLabels
	record := labels.Set{}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		now, isSet := cluster.Labels[key]
		was, isRecorded := recorded[key]
		switch {
		case isReserved(key):
			refused.reserved = append(refused.reserved, key)
		case isSet == isRecorded && now == was: // The label belongs to the Secret, or does not exist.
			metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, wanted[key])
			record[key] = wanted[key]
		case isRecorded:
			record[key] = was
			fallthrough
		default:
			if !isSet || now != wanted[key] {
				refused.others = append(refused.others, key)
			}
		}
	}
	for key, was := range recorded {
		_, isKept := record[key]
		if now, isSet := cluster.Labels[key]; !isKept && isSet && now == was {
			delete(cluster.Labels, key)
		}
	}
	if metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationClusterLabels, record.String()); len(record) == 0 {
		delete(cluster.Annotations, hubv1.AnnotationClusterLabels)
	}
	return refused
}

func isReserved(key string) bool {
	domain, _, isQualified := strings.Cut(key, "/")
	return isQualified && (domain == hubv1.GroupName || strings.HasSuffix(domain, "."+hubv1.GroupName))
}

var errLabels = errors.New("the annotation " + hubv1.AnnotationClusterLabels + " must hold labels in the form key=value,key=value")

func parseLabels(text string) (labels.Set, error) {
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLabels, err)
	}
	return set, nil
}
