// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
)

// generated is an object with the names of its leaves.
type generated struct {
	obj    map[string]any
	leaves []leaf
}

// leaf is a scalar in an object: the path that names it, and how it is set.
type leaf struct {
	path string
	set  func(any)
}

// mapOf draws a map with at least one entry.
func (g *generated) mapOf(t *rapid.T, path string, depth int) map[string]any {
	obj := map[string]any{}
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "spec", "a.b", "x/y", "finalizer", "kinds"}), 1, 4, rapid.ID).Draw(t, "keys")
	for _, key := range keys {
		at := strings.TrimPrefix(path+"."+key, ".")
		if strings.ContainsAny(key, "./") {
			at = path + "[" + key + "]"
		}
		obj[key] = g.value(t, at, depth)
		if isScalar(obj[key]) {
			g.leaves = append(g.leaves, leaf{at, func(value any) { obj[key] = value }})
		}
	}
	return obj
}

// value draws a value. A list of maps has names in all of its elements, or in none.
func (g *generated) value(t *rapid.T, path string, depth int) any {
	kind := "scalar"
	if depth > 0 {
		kind = rapid.SampledFrom([]string{"scalar", "map", "maps", "named", "scalars"}).Draw(t, "kind")
	}
	length := rapid.IntRange(1, 3)
	var list []any
	switch kind {
	case "map":
		return g.mapOf(t, path, depth-1)
	case "maps", "named":
		for i := range length.Draw(t, "length") {
			at := fmt.Sprintf("%s[%d]", path, i)
			element := g.mapOf(t, at, depth-1)
			if kind == "named" {
				element["name"] = fmt.Sprint("element ", i)
				g.leaves = append(g.leaves, leaf{at + ".name", func(value any) { element["name"] = value }})
			}
			list = append(list, element)
		}
		return list
	case "scalars":
		for i := range length.Draw(t, "length") {
			list = append(list, scalar.Draw(t, "element"))
			g.leaves = append(g.leaves, leaf{path, func(value any) { list[i] = value }})
		}
		return list
	}
	return scalar.Draw(t, "scalar")
}

var scalar = rapid.OneOf(
	rapid.Map(rapid.StringN(0, 3, -1), func(v string) any { return v }), rapid.Map(rapid.Int64(), func(v int64) any { return v }),
	rapid.Map(rapid.Float64(), func(v float64) any { return v }), rapid.Map(rapid.Bool(), func(v bool) any { return v }),
)

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func TestFieldset_Properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := generated{}
		g.obj = g.mapOf(t, "", 4)
		desired := runtime.DeepCopyJSON(g.obj)
		hash := fieldset.Hash(desired)
		if path, ok := fieldset.Contains(g.obj, desired); !ok {
			t.Fatalf("%v differs from itself at %s", desired, path)
		}
		changed := rapid.SampledFrom(g.leaves).Draw(t, "leaf")
		changed.set("changed")
		if path, ok := fieldset.Contains(g.obj, desired); ok || path != changed.path {
			t.Fatalf("%v and %v differ at %s; got %q, %t", g.obj, desired, changed.path, path, ok)
		}
		if got := fieldset.Hash(g.obj); got != hash {
			t.Fatalf("a value changes the hash from %s to %s", hash, got)
		}
		changed.set(map[string]any{"deeper": "field"})
		if got := fieldset.Hash(g.obj); got == hash {
			t.Fatalf("the hash of %v is that of %v", g.obj, desired)
		}
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(desired))).Draw(t, "key")
		delete(desired, key)
		if got := fieldset.Hash(desired); got == hash {
			t.Fatalf("the hash is the same without %s", key)
		}
	})
}
