// SPDX-License-Identifier: Apache-2.0

package fieldset

import "encoding/base64"

// Prune removes from an object what apply does not send: the status, and the metadata that an API server sets. Of a typed object it also
// removes nulls, which such objects have for times and lists that are not set; in a custom resource null may have a meaning of its own.
// Nulls in lists stay, since they have an index. The stringData of a Secret become its data, as they do in an API server, which never
// returns them.
func Prune(obj map[string]any, isTyped bool) {
	delete(obj, "status")
	if metadata, ok := obj["metadata"].(map[string]any); ok {
		for _, key := range []string{
			"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
			"selfLink", "uid",
		} {
			delete(metadata, key)
		}
	}
	if obj["kind"] == "Secret" && obj["apiVersion"] == "v1" {
		mergeStringData(obj)
	}
	if isTyped {
		pruneNulls(obj)
	}
}

func mergeStringData(secret map[string]any) {
	text, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	delete(secret, "stringData")
	data, ok := secret["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
		secret["data"] = data
	}
	for key, value := range text {
		if s, ok := value.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
}

func pruneNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if one == nil {
				delete(v, key)
				continue
			}
			pruneNulls(one)
		}
	case []any:
		for _, one := range v {
			pruneNulls(one)
		}
	}
}

// Common returns the fields of an object that another one has, too, whatever their values are there. Of a list it has all
// elements, reduced to common fields if the other list has the same length.
func Common(obj, other map[string]any) map[string]any {
	common := map[string]any{}
	for key, value := range obj {
		if there, ok := other[key]; ok {
			common[key] = commonOf(value, there)
		}
	}
	return common
}

func commonOf(value, there any) any {
	switch v := value.(type) {
	case map[string]any:
		if other, ok := there.(map[string]any); ok {
			return Common(v, other)
		}
	case []any:
		other, ok := there.([]any)
		if !ok || len(other) != len(v) {
			return value
		}
		all := make([]any, len(v))
		for i := range v {
			all[i] = commonOf(v[i], other[i])
		}
		return all
	}
	return value
}
