// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Check reports duplicate fields, fields that the type of a value does not have, and values of another shape: a list
// where a text belongs. Fields are named by their json tags. Types that decode themselves are not checked.
func (f *File) Check(like any) error {
	if f.root == nil {
		return nil
	}
	return Join(append(f.check(f.root, "", reflect.TypeOf(like)), f.twice...)...)
}

func (f *File) check(node *yaml.Node, path string, t reflect.Type) []error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		node.Kind == yaml.AliasNode || node.Tag == "!!null" {
		return nil
	}
	shape, name := yaml.ScalarNode, "one value"
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		shape, name = yaml.MappingNode, "fields with values"
	case reflect.Slice:
		shape, name = yaml.SequenceNode, "a list"
	}
	if node.Kind != shape {
		return []error{f.at(node.Line, fmt.Errorf("%s: use %s here", orWhole(path), name))}
	}
	var problems []error
	switch t.Kind() {
	case reflect.Struct:
		return f.checkFields(node, path, t)
	case reflect.Map:
		for i := 0; i+1 < len(node.Content); i += 2 {
			problems = append(problems, f.check(node.Content[i+1], join(path, node.Content[i].Value), t.Elem())...)
		}
	case reflect.Slice:
		for i, item := range node.Content {
			problems = append(problems, f.check(item, element(path, i), t.Elem())...)
		}
	}
	return problems
}

func (f *File) checkFields(node *yaml.Node, path string, t reflect.Type) []error {
	known := map[string]reflect.Type{}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = t.Field(i).Type
		names = append(names, name)
	}
	var problems []error
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		field, ok := known[key.Value]
		if !ok && key.Value != "<<" {
			slices.Sort(names)
			problems = append(problems, f.at(key.Line, fmt.Errorf("%s: there is no such field; use %s", join(path, key.Value), strings.Join(names, ", "))))
		}
		if ok {
			problems = append(problems, f.check(node.Content[i+1], join(path, key.Value), field)...)
		}
	}
	return problems
}

func orWhole(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
