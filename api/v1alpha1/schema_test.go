// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// walk calls visit for every part of the schema of Clusters, with its path. The path of the root is empty.
func walk(t *testing.T, visit func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	walkOf(t, "clusters", visit)
}

func walkOf(t *testing.T, resource string, visit func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	var down func(path string, s *apiextensionsv1.JSONSchemaProps)
	down = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		visit(path, s)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if path == "" && name != "spec" && name != "status" {
				continue // the API server defines apiVersion, kind and metadata
			}
			property := s.Properties[name]
			down(strings.TrimPrefix(path+"."+name, "."), &property)
		}
		if s.Items != nil {
			down(path+"[]", s.Items.Schema)
		}
	}
	down("", definition(t, resource).Spec.Versions[0].Schema.OpenAPIV3Schema)
}

// The schema follows the API conventions, as far as they show in a schema. The linter for Kubernetes APIs checks the
// same rules.
func TestSchema_FollowsTheConventions(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"clusters", "syncrules"} {
		walkOf(t, resource, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for _, complaint := range complaints(path, s) {
				t.Errorf("%s: %s: %s", resource, path, complaint)
			}
		})
	}
}

// complaints returns the violations of the conventions in one part of the schema.
func complaints(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	name := path[strings.LastIndex(path, ".")+1:]
	var all []string
	claim := func(ok bool, complaint string) {
		if !ok {
			all = append(all, complaint)
		}
	}
	switch s.Type {
	case "string":
		bounded := s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
		claim(bounded, "a string without a maximum length")
	case "integer":
		claim(s.Minimum != nil, "a number without a minimum")
		claim(s.Format == "int32" || strings.HasSuffix(name, "Generation"), "a number that is not an int32")
	case "array":
		claim(s.MaxItems != nil, "a list without a maximum number of items")
		claim(s.XListType != nil, "a list without a list type")
		keyed := s.XListType == nil || *s.XListType != "map" || len(s.XListMapKeys) > 0
		claim(keyed, "a list of type map without keys")
	case "object":
		isLabels := name == "matchLabels" && s.MaxProperties != nil // as in a LabelSelector
		claim(s.AdditionalProperties == nil || isLabels, "a map, where a list with keys would do")
	default:
		isJSON := s.XPreserveUnknownFields != nil && name == "value" // of a JSON Patch
		claim(s.XIntOrString || isJSON, "of type "+s.Type+", which is neither string, integer, list nor object")
	}
	documented := path == "" || strings.HasSuffix(path, "[]") || strings.HasPrefix(s.Description, name+" ")
	claim(documented, "the description does not begin with the name of the field")
	claim(name != "phase", "a phase, where conditions would do")
	claim(!strings.HasSuffix(name, "Reference"), "a reference whose name does not end in Ref")
	for _, v := range s.XValidations {
		claim(v.Message != "", "a rule without a message: "+v.Rule)
	}

	return all
}

// The check above finds each violation.
func TestComplaints(t *testing.T) {
	t.Parallel()
	set, keyed := "set", "map"
	tests := map[string]struct {
		path   string
		schema apiextensionsv1.JSONSchemaProps
	}{
		"an endless string":      {"a", apiextensionsv1.JSONSchemaProps{Type: "string", Description: "a is."}},
		"an endless number":      {"a", apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32", Description: "a is."}},
		"an int64":               {"a", apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int64", Minimum: new(0.0), Description: "a is."}},
		"an endless list":        {"a", apiextensionsv1.JSONSchemaProps{Type: "array", XListType: &set, Description: "a is."}},
		"a list of unknown type": {"a", apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: new(int64(1)), Description: "a is."}},
		"a list without keys":    {"a", apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: new(int64(1)), XListType: &keyed, Description: "a is."}},
		"a map":                  {"a", apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}, Description: "a is."}},
		"a bool":                 {"a", apiextensionsv1.JSONSchemaProps{Type: "boolean", Description: "a is."}},
		"a float":                {"a", apiextensionsv1.JSONSchemaProps{Type: "number", Description: "a is."}},
		"a stray description":    {"a", apiextensionsv1.JSONSchemaProps{Type: "object", Description: "b is."}},
		"a phase":                {"b.phase", apiextensionsv1.JSONSchemaProps{Type: "object", Description: "phase is."}},
		"a long reference":       {"aReference", apiextensionsv1.JSONSchemaProps{Type: "object", Description: "aReference is."}},
		"a silent rule":          {"a", apiextensionsv1.JSONSchemaProps{Type: "object", Description: "a is.", XValidations: apiextensionsv1.ValidationRules{{Rule: "true"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, len(complaints(test.path, &test.schema)), 1, "complaints")
		})
	}
}

func TestSchema_LimitsAreTheConstants(t *testing.T) {
	t.Parallel()
	want := map[string]int64{
		"spec.server":                 hubv1.MaxServerLength,
		"spec.modules":                hubv1.MaxModules,
		"status.server":               hubv1.MaxServerLength,
		"status.modules":              hubv1.MaxModules,
		"spec.modules[]":              hubv1.MaxModuleNameLength,
		"status.modules[].name":       hubv1.MaxModuleNameLength,
		"status.modules[].reason":     hubv1.MaxModuleReasonLength,
		"status.modules[].message":    hubv1.MaxModuleMessageLength,
		"status.conditions[].message": hubv1.MaxConditionMessageLength,
	}
	walk(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		limit := s.MaxLength
		if s.Type == "array" {
			limit = s.MaxItems
		}
		if w, ok := want[path]; ok && (limit == nil || *limit != w) {
			t.Errorf("%s: limit in the schema differs from the constant %d", path, w)
		}
		delete(want, path)
	})
	if len(want) > 0 {
		t.Errorf("schema has no fields %v", slices.Sorted(maps.Keys(want)))
	}
}

func TestStatus_BeginsWithConditions(t *testing.T) {
	t.Parallel()
	testkit.Equal(t, reflect.TypeFor[hubv1.ClusterStatus]().Field(0).Name, "Conditions", "first field of the status")
}

// The value of each condition type and reason is the name of its constant, without the prefix.
func TestConstants_SayTheirName(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "condition_types.go", nil, parser.SkipObjectResolution)
	testkit.Must(t, err)
	prefix := regexp.MustCompile(`^(Condition|Reason)`)
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		seen++
		name := spec.Names[0].Name
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Value != `"`+prefix.ReplaceAllString(name, "")+`"` {
			t.Errorf("value of %s differs from its name", name)
		}

		return true
	})
	if seen < 40 {
		t.Errorf("got %d constants, want at least 40", seen)
	}
}
