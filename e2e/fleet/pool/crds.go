// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const crdKind = "CustomResourceDefinition"

// ReadCRDs returns the CustomResourceDefinitions in YAML files; an error for none.
func ReadCRDs(tree fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var found []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if extension := path.Ext(name); err != nil || entry.IsDir() || extension != ".yaml" && extension != ".yml" {
			return err
		}
		crds, err := readFile(tree, name)
		found = append(found, crds...)
		return err
	})
	if err == nil && len(found) == 0 {
		err = errors.New("there is no " + crdKind + " in it")
	}
	if err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	return found, nil
}

func readFile(tree fs.FS, name string) (found []*apiextensionsv1.CustomResourceDefinition, err error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	const buffer = 4096 // The decoder uses it to distinguish YAML from JSON.
	for decoder := yaml.NewYAMLOrJSONDecoder(file, buffer); ; {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		switch err := decoder.Decode(crd); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case crd.Kind == crdKind:
			found = append(found, crd)
		}
	}
}

const (
	crdTimeout = time.Minute
	crdPeriod  = 20 * time.Millisecond
)

// InstallCRDs creates or updates CRDs, and returns when all are served.
func InstallCRDs(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		if err := createOrUpdate(ctx, c, crd); err != nil {
			return fmt.Errorf("create the CRD %s: %w", crd.Name, err)
		}
	}
	for _, crd := range crds {
		err := wait.PollUntilContextTimeout(ctx, crdPeriod, crdTimeout, true, func(ctx context.Context) (bool, error) {
			return isServed(ctx, c, crd)
		})
		if err != nil {
			return fmt.Errorf("wait until %s are served: %w", crd.Name, err)
		}
	}
	return nil
}

// createOrUpdate leaves the caller's object as it is, and may be called at once for one server.
func createOrUpdate(ctx context.Context, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	err := c.Create(ctx, crd.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), now); err != nil {
			return err
		}
		now.Spec, now.Labels, now.Annotations = *crd.Spec.DeepCopy(), crd.Labels, crd.Annotations
		return c.Update(ctx, now)
	})
}

// isServed: in each version that the CRD says.
func isServed(ctx context.Context, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{
			Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind + "List",
		})
		err := c.List(ctx, list, client.Limit(1))
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
