// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	errNoCRD = errors.New("no CustomResourceDefinition of the cluster serves the kind")
	errNames = errors.New("the CustomResourceDefinition has names that another one uses")
)

// EnsureCRD makes the downstream cluster serve a kind that a CustomResourceDefinition defines upstream. It creates
// the definition, with that version and without conversion, unless there is one, and blocks until the kind is served
// and discovered, or ctx ends.
//
// It also waits for a cluster that does not respond. An error that waiting does not cure, such as a missing
// permission or definition, is returned at once. It needs get on definitions upstream, get and create downstream.
func EnsureCRD(ctx context.Context, p *Pair, kind schema.GroupVersionKind) error {
	backoff := wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 20, Cap: time.Minute}
	var last error
	err := backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (established bool, err error) {
		down := p.options.Downstream.Access()
		if established, err = ensureCRD(ctx, p.options.Upstream.Access(), down, kind); established {
			established, err = isDiscovered(down, kind)
		}
		if err == nil || isLasting(err) {
			return established, err
		}
		if ctx.Err() == nil || last == nil { // The end of ctx explains nothing.
			last = err
		}
		return false, nil
	})
	if ctx.Err() != nil {
		err = errors.Join(err, last)
	}
	if err != nil {
		return fmt.Errorf("make the downstream cluster serve %s: %w", kind, err)
	}
	return nil
}

// isDiscovered: a kind is served a little before it is listed, and controllers look at the list.
func isDiscovered(a Access, kind schema.GroupVersionKind) (bool, error) {
	_, err := a.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

func isLasting(err error) bool {
	return errors.Is(err, errNoCRD) || errors.Is(err, errNames) || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func ensureCRD(ctx context.Context, up, down Access, kind schema.GroupVersionKind) (bool, error) {
	source, err := findCRD(ctx, up, kind)
	if err != nil {
		return false, fmt.Errorf("read the definition upstream: %w", err)
	}
	found := newCRD(source.GetName())
	err = down.Live.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		if found, err = reduced(source, kind.Version); err != nil {
			return false, err
		}
		if err = down.Client.Create(ctx, found); apierrors.IsAlreadyExists(err) {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	return isEstablished(found, kind.Version)
}

func newCRD(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	u.SetName(name)
	return u
}

// findCRD asks for the plural, which may be unusual.
func findCRD(ctx context.Context, a Access, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	mapping, err := a.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	found := newCRD(mapping.Resource.Resource + "." + kind.Group)
	return found, a.Live.Get(ctx, client.ObjectKeyFromObject(found), found)
}

func reduced(source *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	spec, _ := source.DeepCopy().Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, one := range versions {
		v, _ := one.(map[string]any)
		if v["name"] != version {
			continue
		}
		v["served"], v["storage"] = true, true
		spec["versions"] = []any{v}
		delete(spec, "conversion")
		delete(spec, "preserveUnknownFields")
		u := newCRD(source.GetName())
		u.Object["spec"] = spec
		return u, nil
	}
	return nil, fmt.Errorf("%w: version %s of %s", errNoCRD, version, source.GetName())
}

func isEstablished(u *unstructured.Unstructured, version string) (bool, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
		return false, err
	}
	switch {
	case !apihelpers.HasServedCRDVersion(&crd, version):
		return false, fmt.Errorf("%w: %s exists downstream without version %s", errNoCRD, crd.Name, version)
	case apihelpers.IsCRDConditionFalse(&crd, apiextensionsv1.NamesAccepted):
		return false, fmt.Errorf("%w: %s", errNames, crd.Name)
	}
	return apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established), nil
}
