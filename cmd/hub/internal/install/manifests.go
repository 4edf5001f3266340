// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/config"
)

// root is the folder of the kustomization that is the whole installation.
const root = "default"

// manifests returns the objects of the embedded files as they are written there.
func manifests() ([]*unstructured.Unstructured, error) {
	folders, err := resources(root)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, name := range folders {
		objects, err := folder(name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return namespaceFirst(all), nil
}

// folder returns the objects of the files that the kustomization of a folder names.
func folder(name string) ([]*unstructured.Unstructured, error) {
	files, err := resources(name)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read the manifest %s: %w", file, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// resources returns the resources of the kustomization of a folder.
func resources(folder string) ([]string, error) {
	file := path.Join(folder, "kustomization.yaml")
	text, err := config.Installation.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for i, resource := range kustomization.Resources {
		kustomization.Resources[i] = path.Join(folder, resource)
	}
	return kustomization.Resources, nil
}

// read returns the objects of a file.
func read(file string) ([]*unstructured.Unstructured, error) {
	text, err := config.Installation.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// namespaceFirst returns the objects in an order in which they can be created.
func namespaceFirst(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var first, rest []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			first = append(first, object)
		} else {
			rest = append(rest, object)
		}
	}
	return append(first, rest...)
}
