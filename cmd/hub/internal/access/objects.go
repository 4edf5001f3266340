// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Objects returns the objects in documents of YAML or JSON, but for empty documents.
func Objects(text []byte) (all []*unstructured.Unstructured, err error) {
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		one := &unstructured.Unstructured{}
		switch err := decoder.Decode(&one.Object); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read object %d: %w", len(all)+1, err)
		case len(one.Object) > 0:
			all = append(all, one)
		}
	}
}
