// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// StatusSelector picks Clusters by their conditions. All of its terms must hold; none lets everything through.
type StatusSelector []statusTerm

type statusTerm struct {
	condition, status string
	not               bool
}

// ParseStatusSelector reads a selector such as "ready=false,authorized!=true". A condition that a Cluster
// does not have is unknown. The case of letters does not matter.
func ParseStatusSelector(text string) (StatusSelector, error) {
	var selector StatusSelector
	if text == "" {
		return nil, nil
	}
	for term := range strings.SplitSeq(text, ",") {
		condition, status, ok := strings.Cut(term, "=")
		condition, not := strings.CutSuffix(strings.TrimSpace(condition), "!")
		status = strings.ToLower(strings.TrimLeft(strings.TrimSpace(status), "="))
		switch status {
		case "true", "false", "unknown":
		default:
			ok = false
		}
		if !ok || condition == "" {
			return nil, fmt.Errorf("--status-selector: %q is not understood: write it as ready=false, with true, false or unknown", term)
		}
		selector = append(selector, statusTerm{condition, status, not})
	}
	return selector, nil
}

// Matches reports whether a Cluster has the conditions.
func (s StatusSelector) Matches(cluster *unstructured.Unstructured) bool {
	for _, term := range s {
		if strings.EqualFold(statusOf(cluster, term.condition), term.status) == term.not {
			return false
		}
	}
	return true
}

func statusOf(cluster *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for _, c := range conditions {
		one, ok := c.(map[string]any)
		if !ok {
			continue
		}
		name, _ := one["type"].(string)
		if status, ok := one["status"].(string); ok && strings.EqualFold(name, kind) {
			return status
		}
	}
	return "unknown"
}
