// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func readObjects(path string) ([]*unstructured.Unstructured, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the objects of --apply: %w", err)
	}
	defer func() { _ = file.Close() }()
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(file))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the objects of --apply: %w", err)
		}
		one := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &one.Object); err != nil {
			return nil, fmt.Errorf("read object %d of %s: %w", len(objects)+1, path, err)
		}
		if len(one.Object) == 0 {
			continue // a comment
		}
		if one.GetKind() == "" || one.GetAPIVersion() == "" || one.GetName() == "" {
			return nil, fmt.Errorf("object %d of %s lacks apiVersion, kind or metadata.name", len(objects)+1, path)
		}
		objects = append(objects, one)
	}
}

// kindTimeout is how long the hub's cluster may take to serve a kind that was applied before.
const kindTimeout = 30 * time.Second

func (d *demo) applyObjects(ctx context.Context) error {
	if len(d.objects) == 0 {
		return nil
	}
	d.progress.step("applying %s of %s to the hub", number(len(d.objects), "object"), d.apply)
	for _, obj := range d.objects {
		if err := d.applyObject(ctx, obj); err != nil {
			return fmt.Errorf("apply %s %s of %s: %w", obj.GetKind(), obj.GetName(), d.apply, err)
		}
	}
	return nil
}

func (d *demo) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	var missing error
	err := poll(ctx, func() (bool, error) {
		err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(d.program.Name+"-dev"), client.ForceOwnership)
		if meta.IsNoMatchError(err) {
			missing = err
			return false, nil
		}
		return true, err
	})
	if missing != nil && errors.Is(err, context.DeadlineExceeded) {
		return missing
	}
	return err
}
