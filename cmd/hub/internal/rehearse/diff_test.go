// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Lists are compared by what names their elements; heartbeats, versions and the times of managers are no difference.
func TestLeaves(t *testing.T) {
	t.Parallel()
	const object = `{"metadata":{"name":"a","resourceVersion":"1","managedFields":[
		{"manager":"hub","operation":"Apply","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:a":{}}},
		{"manager":"hub","operation":"Apply","apiVersion":"v2","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:a":{}}}]},
		"spec":{"containers":[{"name":"x","image":"1"},{"name":"y","image":"1"}],"args":["a"],"empty":{}},
		"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"1"}]}}`
	for name, row := range map[string]struct {
		other string
		paths []string
	}{
		"the same": {object, nil},
		"heartbeats": {`{"metadata":{"name":"a","resourceVersion":"2","managedFields":[
			{"manager":"hub","operation":"Apply","time":"2027-01-01T00:00:00Z","fieldsV1":{"f:a":{}}}]},
			"spec":{"containers":[{"name":"y","image":"1"},{"name":"x","image":"1"}],"args":["a"],"empty":{}},
			"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2"}]}}`, nil},
		"fields": {`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"x","image":"2"}],"args":["b"]},
			"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, []string{
			"metadata.managedFields[manager=hub Apply]", "spec.args", "spec.containers[name=x].image",
			"spec.containers[name=y].image", "spec.containers[name=y].name", "spec.empty", "status.conditions[type=Ready].status",
		}},
	} {
		changed := leaves{}
		changed.change(parsed(t, object), parsed(t, row.other))
		testkit.Equal(t, slices.Sorted(maps.Keys(changed)), row.paths, name)
	}
}

func parsed(t *testing.T, object string) leaves {
	t.Helper()
	var all unstructured.Unstructured
	testkit.Must(t, json.Unmarshal([]byte(object), &all.Object))
	return leavesOf(all)
}
