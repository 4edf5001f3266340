// SPDX-License-Identifier: Apache-2.0

package entities

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
)

// Document is an entity as commands read and print it.
type Document struct {
	Key      string    `json:"key"`
	Revision uint64    `json:"revision,omitempty"`
	Created  time.Time `json:"created,omitzero"` // of the revision
	// Value is the value if it is JSON, and Raw if it is not.
	Value json.RawMessage `json:"value,omitempty"`
	Raw   []byte          `json:"raw,omitempty"`
	// Status has a part for each cluster. It is not written.
	Status *entity.Status `json:"status,omitempty"`
}

// newDocument returns the document of a value.
func newDocument(key string, revision uint64, created time.Time, value []byte) Document {
	d := Document{Key: key, Revision: revision, Created: created.UTC()}
	if json.Valid(value) {
		d.Value = value
	} else {
		d.Raw = value
	}
	return d
}

// Ready returns in how many clusters the entity is ready, and how many there are.
func (d *Document) Ready() (ready, all int) {
	if d.Status == nil {
		return 0, 0
	}
	for _, part := range d.Status.Clusters {
		all++
		if part.Ready {
			ready++
		}
	}
	return ready, all
}

// MaxValue is the limit of the size of a value: NATS refuses messages of more than a MiB, unless it is configured otherwise.
const MaxValue = 1 << 20

var (
	errNoDocument = errors.New("it has no document")
	errNoObject   = errors.New("the value is no object; write fields, as in \"state: Active\"")
	errTooLarge   = fmt.Errorf("the value has more than %d bytes, which NATS refuses", MaxValue)
	errNoKey      = errors.New("a document has no key; name the key on the command line, or write documents with key and value")
	errNoValue    = errors.New("a document has neither a key and a value nor the fields of a value")
)

// Parse reads documents in YAML or JSON. With a key there is one document: the value of the key, or a document with that key. Without
// a key each document has a key and a value. The status in a document is left out.
func Parse(r io.Reader, key string) ([]Document, error) {
	decoder := utilyaml.NewYAMLReader(bufio.NewReader(r))
	var all []Document
	for {
		text, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		raw, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(all)+1, err)
		}
		if string(raw) == "null" {
			continue
		}
		d, err := parseOne(raw, key)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(all)+1, err)
		}
		all = append(all, d)
	}
	switch {
	case len(all) == 0:
		return nil, errNoDocument
	case key != "" && len(all) > 1:
		return nil, fmt.Errorf("%d documents for the key %s: leave the key out, and write documents with key and value", len(all), key)
	}
	return all, nil
}

// parseOne returns the document in an object of JSON.
func parseOne(raw []byte, key string) (Document, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Document{}, errNoObject
	}
	_, hasKey := fields["key"]
	_, hasValue := fields["value"]
	if !hasKey || !hasValue {
		if key == "" {
			return Document{}, errNoKey
		}
		return Document{Key: key, Value: raw}, nil
	}
	var d Document
	if err := json.Unmarshal(raw, &d); err != nil {
		return Document{}, fmt.Errorf("read key, revision and value: %w", err)
	}
	d.Status = nil
	if key != "" && d.Key != key {
		return Document{}, fmt.Errorf("it has the key %s, and the command line %s", d.Key, key)
	}
	return d, nil
}

// check returns an error about a value that is not to be written.
func (d *Document) check() error {
	var object map[string]json.RawMessage
	switch {
	case len(d.Value) == 0:
		return errNoValue
	case json.Unmarshal(d.Value, &object) != nil:
		return errNoObject
	case len(d.Value) > MaxValue:
		return errTooLarge
	}
	return nil
}

// YAML returns documents as YAML, with --- between them.
func YAML(all ...Document) ([]byte, error) {
	var out bytes.Buffer
	for i := range all {
		text, err := yaml.Marshal(all[i])
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", all[i].Key, err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
