// SPDX-License-Identifier: Apache-2.0

package fieldset

import "encoding/base64"

// Prune removes what apply does not send: the status, and metadata that an API server sets. Of a typed object also
// nulls, which stand for unset times and lists; in a custom resource null may mean something. Nulls in lists keep
// their index. stringData become data, as in an API server.
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

// Common returns the fields that other has, too, with any values. Lists are whole, reduced if both have one length.
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
