// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// conditionHeading is the heading of a condition in its page.
	conditionHeading = regexp.MustCompile("(?m)^## `([A-Za-z]+)`$")
	// reasonRow is the row of a reason: its name, and the status that the condition has for this reason.
	reasonRow = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| ([A-Za-z ]+) \\|")
)

// docs/conditions.md lists exactly the conditions and reasons of the API.
func TestConditions_AreAllThere(t *testing.T) {
	t.Parallel()
	text := pages(t)["docs/conditions.md"]
	conditions, reasons := constantsOf(t, filepath.Join(repository, "api", "v1alpha1", "condition_types.go"))
	compare(t, "condition", conditions, namesIn(conditionHeading, text))
	compare(t, "reason", reasons, namesIn(reasonRow, text))
	for _, row := range reasonRow.FindAllStringSubmatch(text, -1) {
		switch row[2] {
		case "True", "False", "Unknown", "True or False":
		default:
			t.Errorf("%s: got status %q, want True, False, Unknown, or True or False", row[1], row[2])
		}
	}
}

func compare(t *testing.T, what string, api, page map[string]bool) {
	t.Helper()
	for name := range api {
		if !page[name] {
			t.Errorf("docs/conditions.md lacks the %s %s", what, name)
		}
	}
	for name := range page {
		if !api[name] {
			t.Errorf("docs/conditions.md has the %s %s, which is not in the API", what, name)
		}
	}
}

func namesIn(pattern *regexp.Regexp, text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		names[found[1]] = true
	}
	return names
}

// constantsOf returns the values of the constants in a file of the API: the conditions and the reasons.
func constantsOf(t *testing.T, file string) (conditions, reasons map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	conditions, reasons = map[string]bool{}, map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		switch name := spec.Names[0].Name; {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case strings.HasPrefix(name, "Condition"):
			conditions[value] = true
		case strings.HasPrefix(name, "Reason"):
			reasons[value] = true
		default:
			t.Errorf("%s is neither a condition nor a reason", name)
		}
		return true
	})
	if len(conditions) == 0 || len(reasons) == 0 {
		t.Fatalf("%s has no conditions or no reasons", file)
	}
	return conditions, reasons
}
