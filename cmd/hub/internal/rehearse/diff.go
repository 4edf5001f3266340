// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leaves are the values of an object as JSON, by their paths. What an object lacks is not there.
type leaves map[string]string

const managedFields = "metadata.managedFields"

// isIgnored reports what an API server sets, and heartbeats.
func isIgnored(path string) bool {
	switch path {
	case "metadata.creationTimestamp", "metadata.generation", "metadata.resourceVersion", "metadata.selfLink", "metadata.uid", managedFields:
		return true
	}
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "lastHeartbeatTime", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "observedTime", "renewTime":
		return true
	}
	return false
}

// leavesOf has, of a manager, the fields of all its elements: their times are heartbeats.
func leavesOf(object unstructured.Unstructured) leaves {
	all := leaves{}
	all.add("", object.Object)
	for _, one := range object.GetManagedFields() {
		if of := strings.TrimSpace(one.Manager + " " + string(one.Operation) + " " + one.Subresource); one.FieldsV1 != nil {
			all[managedFields+"[manager="+of+"]"] = one.FieldsV1.GetRawString()
		}
	}
	return all
}

func (all leaves) add(path string, value any) {
	children, dot := map[string]any(nil), "."
	switch v := value.(type) {
	case map[string]any:
		if children = v; path == "" {
			dot = ""
		}
	case []any:
		children, dot = named(v), ""
	}
	for name, one := range children {
		if inside := path + dot + name; !isIgnored(inside) {
			all.add(inside, one)
		}
	}
	if len(children) == 0 && path != "" {
		all[path] = text(value)
	}
}

// named returns the elements of a list by what names them, and nil if nothing does.
func named(list []any) map[string]any {
	for _, by := range []string{"name", "type", "uid", "key"} {
		found := map[string]any{}
		for _, one := range list {
			element, _ := one.(map[string]any)
			if name, _ := element[by].(string); name != "" {
				found["["+by+"="+name+"]"] = one
			}
		}
		if len(found) == len(list) {
			return found
		}
	}
	return nil
}

// change adds what differs between two objects, as it is in the second one: what that lacks is empty.
func (all leaves) change(was, is leaves) {
	for path, value := range is {
		if was[path] != value {
			all[path] = value
		}
	}
	for path := range was {
		if _, stays := is[path]; !stays {
			all[path] = ""
		}
	}
}

func text(value any) string {
	written, err := json.Marshal(value)
	if err != nil {
		return "(not readable)"
	}
	return string(written)
}
