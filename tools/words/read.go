// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The kinds of prose that words reads.
const (
	comments = "comments"
	literals = "strings"
	pages    = "pages"
)

// read returns the prose of one kind below a folder, by the folder that it is in.
func read(root, kind string) (map[string][]text, error) {
	found := map[string][]text{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && isSkipped(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || !isOfKind(path, kind):
			return nil
		}
		texts, err := textsOf(path, kind)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if len(texts) > 0 {
			found[folder] = append(found[folder], texts...)
		}
		return err
	})
	return found, err
}

// isSkipped reports whether a folder holds no prose of ours.
func isSkipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "dist"
}

// isOfKind reports whether a file holds prose of a kind.
func isOfKind(path, kind string) bool {
	switch kind {
	case pages:
		return filepath.Ext(path) == ".md"
	case literals: // The literals of tests are inputs, and texts that are compared.
		return filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go")
	}
	return filepath.Ext(path) == ".go"
}

// textsOf returns the prose of one kind in a file.
func textsOf(path, kind string) ([]text, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if kind == pages {
		return []text{{file: path, line: 1, body: withoutCode(string(source))}}, nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	if kind == literals {
		return literalsOf(files, parsed), nil
	}
	return commentsOf(files, parsed), nil
}

// commentsOf returns the groups of comments in a file.
func commentsOf(files *token.FileSet, file *ast.File) []text {
	var texts []text
	for _, group := range file.Comments {
		lines := make([]string, 0, len(group.List))
		for _, comment := range group.List {
			lines = append(lines, bare(comment.Text))
		}
		at := files.Position(group.Pos())
		texts = append(texts, text{file: at.Filename, line: at.Line, body: strings.Join(lines, "\n")})
	}
	return texts
}

// bare returns a comment without its markers, or nothing for directives, markers of generators and licence lines.
func bare(comment string) string {
	if inside, isBlock := strings.CutPrefix(comment, "/*"); isBlock {
		return strings.TrimSuffix(inside, "*/")
	}
	line := strings.TrimPrefix(comment, "//")
	isDirective := regexp.MustCompile(`^([a-z]+:|\s*\+[a-z]|nolint|line )`).MatchString(line)
	if isDirective || strings.Contains(line, "SPDX-License-Identifier") {
		return ""
	}
	return line
}

// literalsOf returns the string literals of a file that hold more than one word.
func literalsOf(files *token.FileSet, file *ast.File) []text {
	var texts []text
	ast.Inspect(file, func(n ast.Node) bool {
		literal, isLiteral := n.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			return true
		}
		if value, err := strconv.Unquote(literal.Value); err == nil && wordsIn(value) > 1 {
			at := files.Position(literal.Pos())
			texts = append(texts, text{file: at.Filename, line: at.Line, body: value})
		}
		return true
	})
	return texts
}

// withoutCode returns a page with the code in it blanked, so that lines keep their numbers.
func withoutCode(page string) string {
	code := regexp.MustCompile("(?ms)^[ \\t]*```.*?^[ \\t]*```[ \\t]*$|`[^`\n]*`")
	return code.ReplaceAllStringFunc(page, func(block string) string {
		return strings.Repeat("\n", strings.Count(block, "\n"))
	})
}
