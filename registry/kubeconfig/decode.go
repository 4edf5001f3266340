// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// decodeYAML decodes one YAML document strictly. It judges the shape on the syntax tree, where nothing is expanded or
// dropped yet, and then uses kubectl's decoder, so that the two cannot read the same bytes differently.
func decodeYAML(raw []byte, at place, into any) error {
	if err := checkShape(raw, at); err != nil {
		return err
	}
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return at.invalid("is not valid YAML" + line(err) + "; put a kubeconfig here" + howToMake)
	}
	return decodeJSON(asJSON, at, into)
}

// decodeJSON drops the decoder's errors, which quote values.
func decodeJSON(raw []byte, at place, into any) error {
	strict, err := json.UnmarshalStrict(raw, into)
	var mistyped *stdjson.UnmarshalTypeError
	var corrupt base64.CorruptInputError
	switch {
	case errors.As(err, &mistyped):
		return at.at(quotable(mistyped.Field)).invalid("has a value of another type than belongs there; put quotes around a text that looks like a number")
	case errors.As(err, &corrupt):
		return at.at(findCorrupt(raw)).invalid("is not base64; encode the whole PEM file, once")
	case err != nil:
		return at.invalid("is not valid JSON; copy it again from where it was created")
	case len(strict) == 0:
		return nil
	}
	path := ""
	if field, ok := errors.AsType[json.FieldError](strict[0]); ok {
		path = field.FieldPath()
	}
	if strings.HasPrefix(strict[0].Error(), "duplicate") {
		return at.at(quotable(path)).invalid("is there twice; remove one of the two")
	}
	return at.at(quotable(path)).invalid("is not a known field, " +
		"and could mean something to others; correct its name or remove it")
}

const howToMake = ", as kubectl config view --raw --flatten --minify prints it"

// countValues is an upper bound: the separators, with Unicode's line breaks. YAML takes microseconds for each, so 64
// KiB of the worst take far longer than of the best.
func countValues(raw []byte) int {
	total := 0
	for _, separator := range []byte("\n\r\xc2\xe2,:?[{") {
		total += bytes.Count(raw, []byte{separator})
	}
	return total
}

// line returns such as " near line 7", or "".
func line(err error) string {
	found := regexp.MustCompile(`\bline (\d{1,6})\b`).FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	return " near line " + found[1]
}

// checkShape accepts one document of mappings, sequences and scalars.
func checkShape(raw []byte, at place) error {
	if countValues(raw) > maxValues {
		return at.refuse(ReasonTooLarge, "has more than 4096 lines and values; keep only the cluster, the user and the context that are needed")
	}
	decoder := yamlnode.NewDecoder(bytes.NewReader(raw))
	var document, next yamlnode.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return at.invalid("is empty; put a kubeconfig here" + howToMake)
	} else if err != nil {
		return at.invalid("is not valid YAML" + line(err) + "; put a kubeconfig here" + howToMake)
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return at.invalid("has more than one YAML document; keep one")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yamlnode.MappingNode {
		return at.invalid("is not a kubeconfig but a bare value; put the whole file here" + howToMake)
	}
	return checkNode(document.Content[0], at, 1)
}

func checkNode(node *yamlnode.Node, at place, depth int) error {
	switch {
	case depth > maxDepth:
		return at.invalid("is nested more than 16 levels deep; remove the fields that are not part of a kubeconfig")
	case node.Kind == yamlnode.AliasNode || node.Anchor != "":
		return at.invalid("uses a YAML anchor or alias; write the value out")
	case node.Style&yamlnode.TaggedStyle != 0:
		return at.invalid("has a YAML tag; remove the tag")
	case node.Kind == yamlnode.MappingNode:
		return checkMapping(node, at, depth)
	}
	for i, item := range node.Content {
		if err := checkNode(item, place{key: at.key, field: at.field + "[" + strconv.Itoa(i) + "]"}, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func checkMapping(node *yamlnode.Node, at place, depth int) error {
	seen := make(map[string]bool, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if err := checkNode(name, at, depth+1); err != nil {
			return err
		}
		if name.Kind != yamlnode.ScalarNode || name.ShortTag() != "!!str" {
			return at.invalid("has a field whose name is not a text; correct the name")
		}
		inside := at.at(quotable(name.Value))
		if seen[name.Value] {
			return inside.invalid("is there twice; remove one of the two")
		}
		seen[name.Value] = true
		if err := checkNode(value, inside, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// findCorrupt returns the path of the first value that is not base64. The decoder says only that there is one.
func findCorrupt(raw []byte) string {
	var document any
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &document); err != nil {
		return ""
	}
	return corruptIn(document, "")
}

func corruptIn(value any, path string) string {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if found := corruptIn(item, path+"["+strconv.Itoa(i)+"]"); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, name := range []string{"clusters", "users", "cluster", "user", "tlsClientConfig"} {
			if found := corruptIn(value[name], place{field: path}.at(name).field); found != "" {
				return found
			}
		}
		for _, name := range []string{
			"certificate-authority-data", "client-certificate-data", "client-key-data", "caData", "certData", "keyData",
		} {
			text, _ := value[name].(string)
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				return place{field: path}.at(name).field
			}
		}
	}
	return ""
}
