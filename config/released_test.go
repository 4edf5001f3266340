// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/config"
)

type object = map[string]any

// Promise: the CRD only gains fields: what a released CRD accepts, the present one accepts.
func TestCRD_onlyGainsFields(t *testing.T) {
	t.Parallel()
	for kind, pattern := range map[string]string{"clusters": "v*.yaml", "syncrules": "syncrules_v*.yaml"} {
		released, err := filepath.Glob("crd/released/" + pattern)
		if err != nil || len(released) == 0 {
			t.Fatalf("no released CRDs of %s: %v", kind, err)
		}
		current := read(t, config.CRDs, "crd/clusterfx.dev_"+kind+".yaml")
		for _, file := range released {
			for _, problem := range lost(read(t, os.DirFS("."), file), current) {
				t.Errorf("since %s: %s: the CRD may gain fields only", filepath.Base(file), problem)
			}
		}
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	schemaOf := func(crd object) object {
		return versions(crd)["v1alpha1"]["schema"].(object)["openAPIV3Schema"].(object)
	}
	specOf := func(crd object) object { return schemaOf(crd)["properties"].(object)["spec"].(object) }
	state := func(crd object) object { return specOf(crd)["properties"].(object)["state"].(object) }
	for name, test := range map[string]struct {
		change func(crd object)
		want   int
	}{
		"nothing":             {func(object) {}, 0},
		"a field more":        {func(crd object) { specOf(crd)["properties"].(object)["new"] = object{"type": "string"} }, 0},
		"another description": {func(crd object) { specOf(crd)["description"] = "other" }, 0},
		"a value more":        {func(crd object) { state(crd)["enum"] = append(slices.Clone(state(crd)["enum"].([]any)), "New") }, 0},
		"a field less":        {func(crd object) { delete(specOf(crd)["properties"].(object), "state") }, 1},
		"another type":        {func(crd object) { state(crd)["type"] = "integer" }, 1},
		"a value less":        {func(crd object) { state(crd)["enum"] = state(crd)["enum"].([]any)[1:] }, 1},
		"a limit":             {func(crd object) { state(crd)["maxLength"] = 3.0 }, 1},
		"a required field": {func(crd object) {
			required, _ := specOf(crd)["required"].([]any)
			specOf(crd)["required"] = append(slices.Clone(required), "state")
		}, 1},
		"a rule":             {func(crd object) { state(crd)["x-kubernetes-validations"] = []any{object{"rule": "self != 'x'"}} }, 1},
		"a version less":     {func(crd object) { versions(crd)["v1alpha1"]["served"] = false }, 1},
		"another short name": {func(crd object) { crd["spec"].(object)["names"].(object)["shortNames"] = []any{"x"} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, changed := read(t, config.CRDs, "crd/clusterfx.dev_clusters.yaml"), read(t, config.CRDs, "crd/clusterfx.dev_clusters.yaml")
			test.change(changed)
			if got := lost(old, changed); len(got) != test.want {
				t.Errorf("lost %q, want %d", got, test.want)
			}
		})
	}
}

func read(t *testing.T, files fs.FS, file string) object {
	t.Helper()
	data, err := fs.ReadFile(files, file)
	crd := object{}
	if err == nil {
		err = yaml.Unmarshal(data, &crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// versions are the versions of a CRD, by name.
func versions(crd object) map[string]object {
	all := map[string]object{}
	for _, one := range crd["spec"].(object)["versions"].([]any) {
		all[one.(object)["name"].(string)] = one.(object)
	}
	return all
}

// lost names what a CRD accepts or serves and its successor does not.
func lost(old, current object) []string {
	var problems []string
	for _, field := range []string{"group", "scope", "names"} {
		if !reflect.DeepEqual(old["spec"].(object)[field], current["spec"].(object)[field]) {
			problems = append(problems, "spec."+field+" differs")
		}
	}
	now := versions(current)
	for name, one := range versions(old) {
		switch same, ok := now[name]; {
		case !ok || same["served"] != one["served"] || same["storage"] != one["storage"]:
			problems = append(problems, "version "+name+" is not served or stored as before")
		default:
			schema := func(version object) object { return version["schema"].(object)["openAPIV3Schema"].(object) }
			problems = append(problems, lostOf(name, schema(one), schema(same))...)
		}
	}
	return problems
}

// free are the keys of a schema that may change; those below are compared one by one.
func free() []string {
	return []string{"description", "properties", "items", "additionalProperties", "required", "enum", "x-kubernetes-validations"}
}

func lostOf(path string, old, current object) []string {
	var problems []string
	bare := func(schema object) object {
		schema = maps.Clone(schema)
		maps.DeleteFunc(schema, func(key string, _ any) bool { return slices.Contains(free(), key) })
		return schema
	}
	if before, now := bare(old), bare(current); !reflect.DeepEqual(before, now) {
		problems = append(problems, fmt.Sprintf("%s: %v became %v", path, before, now))
	}
	// Values may be added; what is demanded may not.
	for key, all := range map[string][2]any{
		"enum": {old["enum"], current["enum"]}, "required": {current["required"], old["required"]},
		"x-kubernetes-validations": {current["x-kubernetes-validations"], old["x-kubernetes-validations"]},
	} {
		if missing := without(all[0], all[1]); len(missing) > 0 {
			problems = append(problems, fmt.Sprintf("%s: %s differs by %v", path, key, missing))
		}
	}
	fields, _ := current["properties"].(object)
	before, _ := old["properties"].(object)
	for name, field := range before {
		if now, ok := fields[name].(object); ok {
			problems = append(problems, lostOf(path+"."+name, field.(object), now)...)
		} else {
			problems = append(problems, path+"."+name+" is gone")
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if element, ok := old[key].(object); ok {
			now, _ := current[key].(object)
			problems = append(problems, lostOf(path+"[]", element, now)...)
		}
	}
	return problems
}

// without are the elements of a list that another one lacks.
func without(list, other any) []any {
	elements, _ := list.([]any)
	others, _ := other.([]any)
	return slices.DeleteFunc(slices.Clone(elements), func(element any) bool {
		return slices.ContainsFunc(others, func(one any) bool { return reflect.DeepEqual(one, element) })
	})
}
