// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What make test leaves out is shown by another test that it runs, or the test says why that is impossible.
func TestSlow_IsShownFaster(t *testing.T) {
	t.Parallel()
	tests := readTests(t)
	for name, test := range tests {
		for _, shownBy := range test.slow {
			reason, isAlone := strings.CutPrefix(shownBy, "nothing: ")
			fast, isKnown := tests[shownBy]
			switch {
			case isAlone && len(strings.Fields(reason)) < 4:
				t.Errorf("%s: no reason why no faster test shows the same", name)
			case isAlone:
			case !isKnown:
				t.Errorf("%s is shown by %q, which does not exist", name, shownBy)
			case fast.isSlow:
				t.Errorf("%s is shown by %s, which is slow, too", name, shownBy)
			}
		}
	}
	if len(tests) == 0 {
		t.Error("no tests found")
	}
}

// test is what a test says of its time.
type test struct {
	isSlow bool     // all of it, not only some subtests
	slow   []string // the arguments of its calls of Slow
}

// readTests returns all tests of the repository, by folder and name.
func readTests(t *testing.T) map[string]*test {
	t.Helper()
	tests := map[string]*test{}
	err := eachTestFile(t, func(path string, file *ast.File) error {
		folder, err := filepath.Rel(repository, filepath.Dir(path))
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			one := &test{}
			one.read(function.Body)
			if skipsItself(function.Body) {
				t.Errorf("%s: %s skips with -short and does not say which test shows the same: call fleettest.Slow", path, function.Name.Name)
			}
			if function.Recv == nil && strings.HasPrefix(function.Name.Name, "Test") {
				tests["./"+filepath.ToSlash(folder)+" "+function.Name.Name] = one
			} else if len(one.slow) > 0 {
				t.Errorf("%s: %s is no test, and calls Slow", path, function.Name.Name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// eachTestFile calls f for each file of tests.
func eachTestFile(t *testing.T, f func(path string, file *ast.File) error) error {
	t.Helper()
	return filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != repository && isNotOurs(entry.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		return f(path, file)
	})
}

// read finds the calls of Slow.
func (o *test) read(body *ast.BlockStmt) {
	for _, statement := range body.List {
		if expression, ok := statement.(*ast.ExprStmt); ok && isSlow(expression.X) {
			o.isSlow = true
		}
	}
	ast.Inspect(body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !isSlow(call) {
			return true
		}
		shownBy := ""
		if text, ok := call.Args[1].(*ast.BasicLit); ok {
			shownBy, _ = strconv.Unquote(text.Value)
		}
		o.slow = append(o.slow, shownBy)
		return true
	})
}

// isSlow reports whether an expression is a call of fleettest.Slow.
func isSlow(node ast.Node) bool {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Slow" {
		return false
	}
	from, ok := function.X.(*ast.Ident)
	return ok && from.Name == "fleettest"
}

// skipsItself reports whether code skips a test because of testing.Short.
func skipsItself(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(node ast.Node) bool {
		if branch, ok := node.(*ast.IfStmt); ok && calls(branch.Cond, "Short") && calls(branch.Body, "Skip", "Skipf", "SkipNow") {
			found = true
		}
		return true
	})
	return found
}

// calls reports whether there is a call of a method or an imported function with one of these names.
func calls(within ast.Node, names ...string) (found bool) {
	ast.Inspect(within, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			function, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && slices.Contains(names, function.Sel.Name)
		}
		return true
	})
	return found
}
