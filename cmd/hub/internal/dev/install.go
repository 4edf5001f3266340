// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/config"
)

// install creates the CRDs and the credentials namespace.
func (d *demo) install(ctx context.Context) (err error) {
	if d.client, err = client.New(d.hub.Config(), client.Options{Scheme: d.scheme}); err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	files, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("the program was built without its CRDs"), err)
	}
	for _, file := range files {
		if err := d.installCRD(ctx, file); err != nil {
			return fmt.Errorf("install %s: %w", file, err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}
	if err := d.client.Create(ctx, ns); err != nil {
		return fmt.Errorf("create the credentials namespace: %w", err)
	}
	return nil
}

// installCRD returns when the API server serves it.
func (d *demo) installCRD(ctx context.Context, file string) error {
	data, err := config.CRDs.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return err
	}
	if err := d.client.Create(ctx, crd); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		err := d.client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		return established(crd), err
	})
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if one, ok := c.(map[string]any); ok && one["type"] == "Established" && one["status"] == "True" {
			return true
		}
	}
	return false
}
