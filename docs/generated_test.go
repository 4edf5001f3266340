// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

var update = flag.Bool("update", false, "write the pages that are made of comments in the code")

// The pages that are made of comments in the code are fresh. Write them with go test ./docs -run Generated -update.
func TestGenerated_IsFresh(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{"conditions.md": conditionsPage(t), "layout.md": layoutPage(t)} {
		if *update {
			testkit.Must(t, os.WriteFile(page, []byte(want), 0o600))
		}
		got, err := os.ReadFile(page)
		if diff := cmp.Diff(string(got), want); err != nil || diff != "" {
			t.Errorf("docs/%s is out of date (%v): go test ./docs -run Generated -update\n%s", page, err, diff)
		}
	}
}

const conditionsHead = `<!-- Made of the comments in api/v1alpha1/condition_types.go: go test ./docs -run Generated -update. -->
# Conditions

Begin with ` + "`Ready`" + `: it has the reason and the message of the first condition that is not True, and the message says
what to do. States that last less than a second are not reported; a hub that starts keeps the conditions of a Cluster until its
remote has had its first turn, for 30 s at most.

` + "```sh" + `
hub describe edge-eu-1
kubectl wait --for=condition=Ready clusters.clusterfx.dev/edge-eu-1 --timeout=2m
` + "```" + `
`

const hubPartsHead = "\n## Hub parts\n\nThe hub part of a module has a state and a reason of its own, which `hub get modules`, `hub check` and " +
	"`/readyz?verbose` show. It\nshares reasons with the conditions: `RightsMissing` and `Forbidden` (a permission of the hub; add an " +
	"undeclared rule to `HubRules`),\n`Stale`, `BuildFailed`, `StartFailed`, `ModuleFailed`. `Standby` is no problem: it is the " +
	"turn of another replica. The\nreasons of modules in an app that waits are here, too.\n\n"

// conditionsPage returns the page of conditions and reasons.
func conditionsPage(t *testing.T) string {
	t.Helper()
	api := filepath.Join(repository, "api", "v1alpha1")
	all := constantsIn(t, filepath.Join(api, "condition_types.go"))
	names := constantNames{values: map[string]string{}}
	for _, c := range append(constantsIn(t, filepath.Join(api, "metadata.go")), all...) {
		names.values[c.name] = c.value
	}
	reasons, page := map[string][]constant{}, conditionsHead
	for _, c := range all {
		if strings.HasPrefix(c.name, "Reason") {
			reasons[c.section()] = append(reasons[c.section()], c)
		}
	}
	for _, c := range all {
		if strings.HasPrefix(c.name, "Condition") {
			page += "\n## `" + c.value + "`\n\n" + names.sentence(c) + "\n" + names.table(reasons[c.value])
			delete(reasons, c.value)
		}
	}
	page += "\n## Of more than one condition\n" + names.table(reasons[""])
	delete(reasons, "")
	if len(reasons) > 0 {
		t.Errorf("there are reasons of conditions that do not exist: %v", slices.Collect(maps.Keys(reasons)))
	}
	page += names.syncRules(t, filepath.Join(api, "syncrule_conditions.go"))
	modules := constantsIn(t, filepath.Join(repository, "registry", "state", "status.go"))
	page += hubPartsHead + strings.TrimPrefix(names.table(slices.DeleteFunc(append(modules,
		constantsIn(t, filepath.Join(repository, "reconcilers", "entity", "natshub", "report.go"))...),
		func(c constant) bool { return c.doc == "" || !strings.HasPrefix(c.name, "Reason") })), "\n")
	return page
}

// syncRules are the conditions and reasons of SyncRules, and the problems in status.problems.
func (n constantNames) syncRules(t *testing.T, file string) string {
	t.Helper()
	text := "\n## Of SyncRules\n\n`Ready`, `Reconciling`, `Stalled`, and:\n"
	for _, prefix := range []string{"Condition", "Reason", "Sync"} {
		var found []constant
		for _, c := range constantsIn(t, file) {
			if strings.HasPrefix(c.name, prefix) {
				found = append(found, c)
			}
		}
		text += strings.Replace(n.table(found), "reason", map[string]string{"Condition": "condition", "Reason": "reason", "Sync": "problem"}[prefix], 1)
	}
	return text
}

// constant is a constant of a file, with its comment and that of its block.
type constant struct{ name, value, doc, block string }

// section returns the condition to which a reason belongs, or "" for several of them.
func (c constant) section() string {
	for _, pattern := range []string{`^Reasons of (\w+)`, `the reason of (\w+) when`} {
		for _, text := range []string{c.block, c.doc} {
			if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// constantNames has the values of constants by their names in Go.
type constantNames struct{ values map[string]string }

// isAbout is the beginning of a comment of a constant: its name, the status of the condition, and words without meaning.
var isAbout = regexp.MustCompile(`^\w+(?: is)?(?:,? with (True|False|Unknown))?[,:]? ?(?:means that |is )?`)

// sentence returns the comment of a constant, with values in place of names in Go.
func (n constantNames) sentence(c constant) string {
	text := isAbout.ReplaceAllString(c.doc, "")
	text = regexp.MustCompile(`\b(?:Reason|Condition|Annotation)[A-Z]\w+`).ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := n.values[name]; ok {
			return "`" + value + "`"
		}
		return name
	})
	return strings.ToUpper(text[:1]) + text[1:]
}

func (n constantNames) table(reasons []constant) string {
	if len(reasons) == 0 {
		return ""
	}
	text := "\n| reason | status | |\n|---|---|---|\n"
	for _, c := range reasons {
		text += fmt.Sprintf("| `%s` | %s | %s |\n", c.value, isAbout.FindStringSubmatch(c.doc)[1], n.sentence(c))
	}
	return text
}

// constantsIn returns the constants of a file that are strings.
func constantsIn(t *testing.T, path string) (all []constant) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	testkit.Must(t, err)
	for _, declaration := range file.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			one := spec.(*ast.ValueSpec)
			literal, ok := one.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			testkit.Must(t, err)
			c := constant{name: one.Names[0].Name, value: value, doc: inLine(one.Doc), block: inLine(block.Doc)}
			if !block.Lparen.IsValid() {
				c.doc = c.block
			}
			all = append(all, c)
		}
	}
	return all
}

func inLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

const layoutHead = `<!-- Made of the first sentence of each package comment: go test ./docs -run Generated -update. -->
# Layout

| package | what it is for |
|---|---|
`

// layoutPage returns the list of all packages.
func layoutPage(t *testing.T) string {
	t.Helper()
	sentences := map[string]string{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != repository && (isNotOurs(entry.Name()) || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || file.Doc == nil {
			return err
		}
		folder, err := filepath.Rel(repository, filepath.Dir(path))
		sentence := new(doc.Package).Synopsis(file.Doc.Text())
		sentences[filepath.ToSlash(folder)] = regexp.MustCompile(`^Package \w+ `).ReplaceAllString(sentence, "")
		return err
	})
	testkit.Must(t, err)
	page := layoutHead
	for _, folder := range slices.Sorted(maps.Keys(sentences)) {
		page += fmt.Sprintf("| [`%[1]s`](../%[1]s) | %[2]s |\n", folder, sentences[folder])
	}
	return page
}
