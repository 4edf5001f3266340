// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// leaves are the values of an object as JSON, by their paths. What an object lacks is not there.
type leaves map[string]string

const managedFields = "metadata.managedFields"

// isIgnored reports what an API server sets, and heartbeats.
func isIgnored(path string) bool {
	switch path {
	case "metadata.creationTimestamp", "metadata.generation", "metadata.resourceVersion", "metadata.selfLink", "metadata.uid":
		return true
	}
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "lastHeartbeatTime", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "observedTime", "renewTime":
		return true
	}
	return false
}

func leavesOf(object map[string]any) leaves {
	all := leaves{}
	all.add("", object)
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
		children, dot = named(path, v), ""
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
func named(path string, list []any) map[string]any {
	names := []string{"name", "type", "uid", "key"}
	if path == managedFields {
		names = []string{"manager"}
	}
	for _, by := range names {
		found := map[string]any{}
		for _, one := range list {
			element, _ := one.(map[string]any)
			name, _ := element[by].(string)
			if by == "manager" { // A manager has several elements, and their times are heartbeats.
				sub, _ := element["subresource"].(string)
				name = strings.TrimSpace(fmt.Sprint(name, " ", element["operation"], " ", sub))
				one = text(element["fieldsV1"])
			}
			if name != "" {
				found["["+by+"="+name+"]"] = one
			}
		}
		if len(found) == len(list) || path == managedFields {
			return found
		}
	}
	return nil
}

// differ returns the paths whose values are not the same, sorted.
func differ(a, b leaves) (paths []string) {
	for path, value := range a {
		if other, is := b[path]; !is || other != value {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, is := a[path]; !is {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func text(value any) string {
	written, err := json.Marshal(value)
	if err != nil {
		return "(not readable)"
	}
	return string(written)
}
