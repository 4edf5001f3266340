// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a YAML file of one document. It is made by Parse.
type File struct {
	path  string
	root  *yaml.Node
	lines map[string]int // by path, as in modules[0].config.interval
	twice []error        // the fields that are there twice
}

// Error is a problem on a line of a file.
type Error struct {
	// Path is the path of the file, and Line counts from 1.
	Path string
	Line int
	err  error
}

// Error returns the file, the line and the problem.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.err) }

// Unwrap returns the problem.
func (e *Error) Unwrap() error { return e.err }

// position matches the prefix of the parser's messages.
var position = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// Parse reads a file, and fails if it is not YAML. The path is for messages.
func Parse(path string, text []byte) (*File, error) {
	f := &File{path: path, lines: map[string]int{"": 1}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, f.malformed(err)
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, f.at(next.Line, errors.New("a second YAML document begins here, and one is read; remove it"))
	case !errors.Is(err, io.EOF):
		return nil, f.malformed(err)
	}
	if len(document.Content) == 0 {
		return f, nil
	}
	f.root = document.Content[0]
	f.index(f.root, "")
	return f, nil
}

// malformed returns the error of the parser with the file and the line.
func (f *File) malformed(err error) error {
	parts := position.FindStringSubmatch(err.Error())
	if parts == nil {
		return f.at(1, err)
	}
	line, _ := strconv.Atoi(parts[1]) // Without a number it is the first line.
	return f.at(max(line, 1), errors.New("this is not YAML: "+parts[2]))
}

func (f *File) at(line int, err error) error { return &Error{Path: f.path, Line: line, err: err} }

// At returns an error with the file and the line of a field. If the field is missing, the line belongs to its nearest
// existing parent.
func (f *File) At(field string, err error) error {
	for {
		if line, ok := f.lines[field]; ok {
			return f.at(line, err)
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
}

// Has reports whether the file has a field.
func (f *File) Has(field string) bool { return f.lines[field] > 0 }

// index notes the lines of all fields.
func (f *File) index(node *yaml.Node, path string) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			field := join(path, key.Value)
			if f.Has(field) {
				f.twice = append(f.twice, f.at(key.Line, fmt.Errorf("%s: it is there twice, see line %d; remove one", field, f.lines[field])))
				continue
			}
			f.lines[field] = key.Line
			f.index(value, field)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			field := element(path, i)
			f.lines[field] = item.Line
			f.index(item, field)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Join joins errors in the order of their lines. It returns nil if there are none.
func Join(errs ...error) error {
	line := func(err error) int {
		var placed *Error
		if errors.As(err, &placed) {
			return placed.Line
		}
		return 0
	}
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	return errors.Join(errs...)
}
