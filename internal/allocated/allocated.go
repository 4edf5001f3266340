// SPDX-License-Identifier: Apache-2.0

package allocated

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Has reports whether the table has the kind.
func Has(kind schema.GroupKind) bool { return table[kind] != nil }

// Without removes what a server has allocated. managed are the managedFields as read, whole or from Reduce; without
// them all fields of the table go. include are JSON pointers to fields that stay whole.
func Without(kind schema.GroupVersionKind, obj map[string]any, managed []metav1.ManagedFieldsEntry, include []string) {
	fields := table[kind.GroupKind()]
	if fields == nil {
		return
	}
	chosen := ownedIn(fields, kind, managed)
	for _, f := range fields {
		if slices.ContainsFunc(include, func(pointer string) bool { return f.path == pointer || strings.HasPrefix(f.path, pointer+"/") }) {
			continue
		}
		owned := chosen
		if f.always {
			owned = nil
		}
		removal{f, obj}.apply(obj, f.steps(), owned)
	}
}

// Reduce keeps the managedFields by which Without decides: one entry, or none.
func Reduce(kind schema.GroupVersionKind, obj metav1.Object) {
	fields := table[kind.GroupKind()]
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata: // It has none of the fields.
		fields = nil
	case *unstructured.Unstructured:
		if fields == nil { // Without a conversion.
			metadata, _ := o.Object["metadata"].(map[string]any)
			delete(metadata, "managedFields")
			return
		}
	}
	var owned tree
	if fields != nil {
		owned = ownedIn(fields, kind, obj.GetManagedFields())
	}
	if len(owned) == 0 {
		obj.SetManagedFields(nil)
		return
	}
	raw, err := json.Marshal(owned)
	if err != nil {
		obj.SetManagedFields(nil) // A map of strings is always encoded.
		return
	}
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "clusterfx", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: kind.GroupVersion().String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}})
}

func (f field) steps() []string {
	steps := strings.Split(f.path[1:], "/")
	for i, step := range steps {
		steps[i] = strings.ReplaceAll(step, "~1", "/")
	}
	return steps
}

func (f field) text() string {
	if f.element != "" {
		return f.element
	}
	steps := slices.DeleteFunc(f.steps(), func(step string) bool { return step == "*" })
	return `"f:` + steps[len(steps)-1] + `"`
}

// tree is what an owner has, as in FieldsV1: f: and the name of a field, k: and the keys of an element. Without keys
// it is owned whole.
type tree map[string]any

// ownedIn returns which fields have an owner, or nil.
func ownedIn(fields []field, kind schema.GroupVersionKind, managed []metav1.ManagedFieldsEntry) tree {
	owned := tree{}
	for _, m := range managed {
		if m.Manager == "before-first-apply" || m.Subresource == "status" || m.APIVersion != kind.GroupVersion().String() ||
			m.FieldsV1 == nil || !mayHave(fields, m.FieldsV1.GetRawBytes()) {
			continue
		}
		var all tree
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &all) != nil {
			continue
		}
		for _, f := range fields {
			if !f.always && len(all) > 0 {
				owned.add(all, f.steps(), f.element)
			}
		}
	}
	if len(owned) == 0 {
		return nil
	}
	return owned
}

// mayHave is cheap: most Pods have none, and decoding takes its time.
func mayHave(fields []field, raw []byte) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return bytes.Contains(raw, []byte(f.text())) })
}

// add adds what from has at a path or below, and reports whether there is any.
func (t tree) add(from tree, path []string, element string) (found bool) {
	if len(from) == 0 || len(path) == 0 {
		clear(t)
		return true
	}
	for key, value := range from {
		isStep := key == "f:"+path[0]
		if path[0] == "*" {
			isStep = key != "." && (len(path) > 1 || strings.Contains(key, element))
		}
		below, isTree := value.(map[string]any)
		if !isStep || !isTree {
			continue
		}
		into, exists := t[key].(tree)
		if exists && len(into) == 0 { // owned whole
			found = true
			continue
		}
		if !exists {
			into = tree{}
		}
		if into.add(below, path[1:], element) {
			t[key], found = into, true
		}
	}
	return found
}

func (t tree) below(key string) tree {
	switch v := t[key].(type) {
	case tree:
		return v
	case map[string]any:
		return v
	}
	return nil
}

func (t tree) of(element any) tree {
	for key := range t {
		rest, isKeyed := strings.CutPrefix(key, "k:")
		if !isKeyed {
			continue
		}
		var keys map[string]any
		if json.Unmarshal([]byte(rest), &keys) == nil && hasAll(element, keys) {
			return t.below(key)
		}
	}
	return nil
}

// hasAll: numbers of different types are equal if their JSON is.
func hasAll(element any, keys map[string]any) bool {
	fields, isMap := element.(map[string]any)
	for key, want := range keys {
		is, err := json.Marshal(fields[key])
		wanted, errWanted := json.Marshal(want)
		if err != nil || errWanted != nil || !bytes.Equal(is, wanted) {
			return false
		}
	}
	return isMap
}

type removal struct {
	field
	from map[string]any
}

// apply returns what stays of a value, and whether anything does. owned nil is nothing, without keys the whole value.
func (r removal) apply(value any, path []string, owned tree) (any, bool) {
	if owned != nil && len(owned) == 0 {
		return value, true
	}
	if len(path) == 0 {
		return value, r.when != nil && !r.when(r.from, value)
	}
	switch v := value.(type) {
	case map[string]any:
		one, exists := v[path[0]]
		if !exists {
			return v, true
		}
		rest, stays := r.apply(one, path[1:], owned.below("f:"+path[0]))
		if stays {
			v[path[0]] = rest
			return v, true
		}
		delete(v, path[0])
		return v, len(v) > 0
	case []any:
		kept := v[:0]
		for _, one := range v {
			if rest, stays := r.apply(one, path[1:], owned.of(one)); stays {
				kept = append(kept, rest)
			}
		}
		return kept, len(kept) > 0
	}
	return value, true
}
