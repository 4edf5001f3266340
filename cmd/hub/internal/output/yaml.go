// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	yamltree "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// ReadYAML returns the one document of a file as JSON, null if the file is empty. The error names each field that is repeated.
func ReadYAML(text []byte) (raw []byte, err error) {
	raw, problems, err := readYAML(text)
	return raw, errors.Join(append(problems, err)...)
}

// DecodeYAML decodes the one document of a file. It fails if there is nothing to decode; the problems are all fields that are
// unknown or repeated, and the first one of a wrong type.
func DecodeYAML(text []byte, to any) (problems []error, err error) {
	raw, problems, err := readYAML(text)
	if err != nil {
		return nil, err
	}
	unknown, err := json.UnmarshalStrict(raw, to)
	if err != nil {
		return append(problems, errors.New(strings.TrimPrefix(err.Error(), "json: "))), nil
	}
	return append(problems, unknown...), nil
}

func readYAML(text []byte) (raw []byte, problems []error, err error) {
	decoder := yamltree.NewDecoder(bytes.NewReader(text))
	var document, second yamltree.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, notYAML(err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, nil, fmt.Errorf("line %d: a second YAML document begins here, and one is read; remove it", second.Line)
	case !errors.Is(err, io.EOF):
		return nil, nil, notYAML(err)
	}
	if raw, err = yaml.YAMLToJSON(text); err != nil {
		return nil, nil, notYAML(err)
	}
	return raw, repeated(&document, ""), nil
}

func notYAML(err error) error {
	return errors.New("this is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
}

// repeated returns an error for each field that a mapping has twice: a decoder of YAML names no path, and one of JSON sees the last
// value only.
func repeated(node *yamltree.Node, path string) []error {
	var all []error
	seen := map[string]bool{}
	for i, child := range node.Content {
		at := path
		switch node.Kind {
		case yamltree.MappingNode:
			at = strings.TrimPrefix(path+"."+node.Content[i-i%2].Value, ".")
			if i%2 == 0 && seen[child.Value] {
				all = append(all, fmt.Errorf("duplicate field %q in line %d", at, child.Line))
			}
			if i%2 == 0 {
				seen[child.Value] = true
				continue
			}
		case yamltree.SequenceNode:
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		all = append(all, repeated(child, at)...)
	}
	return all
}
