// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A test binary takes longer to compile than most tests run. So the mutants of a package share one: each that changes
// the body of a function is a copy of it, which the function calls if the environment chooses it. Others, such as of a
// constant, have a binary of their own.

// choice has the name of the chosen mutant.
const choice = "CLUSTERFX_MUTANT"

func (m *mutant) name() string { return fmt.Sprintf("mutant%d", m.number) }

func (r *runner) join(group []*mutant) (texts map[string][]byte, joined map[*mutant]bool, err error) {
	texts, joined = map[string][]byte{}, map[*mutant]bool{}
	for _, m := range group {
		if _, isDone := texts[m.File]; isDone {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.root, m.File))
		if err != nil {
			return nil, nil, err
		}
		of := &joinedFile{text: string(text), prefix: m.name()}
		if err := of.parse(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m.File, err)
		}
		for _, other := range group {
			if other.File == m.File && of.add(other) {
				joined[other] = true
			}
		}
		texts[m.File] = of.joined()
	}
	return texts, joined, nil
}

type joinedFile struct {
	text    string
	prefix  string // of names, and of no other file of the package
	file    *ast.File
	fset    *token.FileSet
	inserts []insertion
	copies  []string
}

// insertion comes at an offset of the file.
type insertion struct {
	at   int
	text string
}

func (f *joinedFile) parse() (err error) {
	f.fset = token.NewFileSet()
	f.file, err = parser.ParseFile(f.fset, "", f.text, parser.SkipObjectResolution)
	return err
}

func (f *joinedFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// add reports false if that is not possible.
func (f *joinedFile) add(m *mutant) bool {
	if m.Before == "" || strings.Count(f.text, m.Before) != 1 {
		return false
	}
	begin := strings.Index(f.text, m.Before)
	end := begin + len(m.Before)
	for _, decl := range f.file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Body == nil || f.offset(function.Body.Lbrace) >= begin || f.offset(function.Body.Rbrace) < end {
			continue
		}
		call, ok := callOf(function, m.name())
		if !ok {
			return false
		}
		f.inserts = append(f.inserts, insertion{
			f.offset(function.Body.Lbrace) + 1, fmt.Sprintf(" if %sChosen == %q { %s }; ", f.prefix, m.name(), call),
		})
		f.copies = append(f.copies, "\n"+f.text[f.offset(function.Pos()):f.offset(function.Name.Pos())]+copyOf(function, m.name())+
			f.text[f.offset(function.Name.End()):begin]+m.After+f.text[end:f.offset(function.End())]+"\n")
		return true
	}
	return false
}

func (f *joinedFile) joined() []byte {
	if len(f.copies) == 0 {
		return []byte(f.text)
	}
	text := f.text
	slices.SortStableFunc(f.inserts, func(a, b insertion) int { return b.at - a.at })
	for _, one := range f.inserts {
		text = text[:one.at] + one.text + text[one.at:]
	}
	at := f.offset(f.file.Name.End())
	text = text[:at] + fmt.Sprintf("\nimport %sOS \"os\"\n", f.prefix) + text[at:]
	text += strings.Join(f.copies, "") + fmt.Sprintf("\nvar %[1]sChosen = %[1]sOS.Getenv(%[2]q)\n", f.prefix, choice)
	return []byte(text)
}

func copyOf(function *ast.FuncDecl, name string) string { return function.Name.Name + "_" + name }

// callOf: the function must name its arguments, and a call of recover would find nothing one call deeper.
func callOf(function *ast.FuncDecl, name string) (statements string, ok bool) {
	if recovers(function) {
		return "", false
	}
	called := copyOf(function, name)
	if function.Recv != nil {
		receiver := function.Recv.List[0].Names
		if len(receiver) == 0 || receiver[0].Name == "_" {
			return "", false
		}
		called = receiver[0].Name + "." + called
	}
	var passed []string
	for _, field := range function.Type.Params.List {
		if len(field.Names) == 0 {
			return "", false
		}
		for _, parameter := range field.Names {
			if parameter.Name == "_" {
				return "", false
			}
			argument := parameter.Name
			if _, isVariadic := field.Type.(*ast.Ellipsis); isVariadic {
				argument += "..."
			}
			passed = append(passed, argument)
		}
	}
	statements = called + "(" + strings.Join(passed, ", ") + ")"
	if results := function.Type.Results; results != nil && len(results.List) > 0 {
		return "return " + statements, true
	}
	return statements + "; return", true
}

// recovers: the function calls recover itself.
func recovers(function *ast.FuncDecl) (found bool) {
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if called, ok := call.Fun.(*ast.Ident); ok && called.Name == "recover" {
				found = true
			}
		}
		_, isNested := node.(*ast.FuncLit)
		return !isNested
	})
	return found
}
