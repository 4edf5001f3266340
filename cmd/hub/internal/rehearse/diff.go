// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// change is one field. A nil value is none.
type change struct {
	path     []string
	from, to any
}

// String is the path.
func (c change) String() string {
	var text strings.Builder
	for _, step := range c.path {
		if !strings.HasPrefix(step, "[") && text.Len() > 0 {
			text.WriteByte('.')
		}
		text.WriteString(step)
	}
	return text.String()
}

// ignored are fields that an API server sets, or that are heartbeats.
func ignored() []string {
	return []string{
		"metadata.creationTimestamp", "metadata.generation", "metadata.resourceVersion", "metadata.selfLink", "metadata.uid",
		"metadata.managedFields[].time", "lastHeartbeatTime", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "observedTime", "renewTime",
	}
}

// compare returns the fields that differ, with the owners of fields as managedFields[name].
func compare(before, after map[string]any) []change {
	d := differ{ignored: ignored()}
	d.maps(nil, before, after)
	was, is := ownersIn(before), ownersIn(after)
	for _, name := range slices.Sorted(maps.Keys(union(was, is))) {
		d.values([]string{managedFields, "[" + name + "]"}, was[name], is[name])
	}
	return d.found
}

const managedFields = "managedFields"

type differ struct {
	ignored []string
	found   []change
}

func (d *differ) values(path []string, before, after any) {
	from, wasMap := before.(map[string]any)
	to, isMap := after.(map[string]any)
	switch {
	case path[0] == managedFields:
	case (wasMap || before == nil) && (isMap || after == nil) && (wasMap || isMap):
		d.maps(path, from, to)
		return
	case isList(before) && isList(after):
		was, is := keyed(before), keyed(after)
		if was != nil && is != nil {
			d.maps(path, was, is)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		d.found = append(d.found, change{path: slices.Clone(path), from: before, to: after})
	}
}

func (d *differ) maps(path []string, before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		one := append(slices.Clone(path), name)
		last := one[len(one)-1]
		if slices.Contains(d.ignored, strings.Join(one, ".")) || slices.Contains(d.ignored, last) || strings.Join(one, ".") == "metadata."+managedFields {
			continue
		}
		d.values(one, before[name], after[name])
	}
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

func isList(value any) bool {
	_, is := value.([]any)
	return is
}

// keyed returns the elements of a list by what names them, or nil.
func keyed(list any) map[string]any {
	all, _ := list.([]any)
	for _, by := range []string{"name", "type", "uid", "key"} {
		found := map[string]any{}
		for _, one := range all {
			element, _ := one.(map[string]any)
			if name, _ := element[by].(string); name != "" {
				found["["+by+"="+name+"]"] = element
			}
		}
		if len(found) == len(all) && len(all) > 0 {
			return found
		}
	}
	return nil
}

// ownersIn returns the fields of each manager.
func ownersIn(object map[string]any) map[string]any {
	entries, _ := metadataOf(object)[managedFields].([]any)
	owners := map[string]any{}
	for _, one := range entries {
		entry, _ := one.(map[string]any)
		name := fmt.Sprintf("%v %v", entry["manager"], entry["operation"])
		if sub, _ := entry["subresource"].(string); sub != "" {
			name += " " + sub
		}
		owners[name] = entry["fieldsV1"]
	}
	return owners
}

// at returns the value at a path; nil for none.
func at(object map[string]any, path []string) any {
	if path[0] == managedFields {
		return ownersIn(object)[strings.Trim(path[1], "[]")]
	}
	var value any = object
	for _, step := range path {
		within, isMap := value.(map[string]any)
		if !isMap {
			within = keyed(value)
		}
		value = within[step]
	}
	return value
}

// remaining returns the changes that a live object does not have.
func remaining(wanted map[string]change, live map[string]any) []change {
	var left []change
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		c := wanted[name]
		if !reflect.DeepEqual(at(live, c.path), c.to) {
			c.from = at(live, c.path)
			left = append(left, c)
		}
	}
	return left
}

func text(value any) string {
	if value == nil {
		return "(none)"
	}
	written, err := json.Marshal(value)
	if err != nil {
		return "(not readable)"
	}
	return string(written)
}
