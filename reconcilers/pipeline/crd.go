// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const establishedPoll = 250 * time.Millisecond

// EnsureCRD applies a CustomResourceDefinition and blocks until it is established or ctx ends, which should have a
// deadline. The error has the reason. It never deletes a CRD, which would delete all objects, and takes no field from
// another manager, so that two versions of a program do not overwrite each other. The scheme must know
// apiextensionsv1; the user must be allowed to patch and get CRDs.
func EnsureCRD(ctx context.Context, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return fmt.Errorf("convert CRD %s: %w", crd.Name, err)
	}
	applied := &unstructured.Unstructured{Object: content}
	applied.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	unstructured.RemoveNestedField(applied.Object, "status")
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(Prefix+"crd"))
	if err != nil {
		return fmt.Errorf("apply CRD %s: %w", crd.Name, err)
	}
	var found apiextensionsv1.CustomResourceDefinition
	err = wait.PollUntilContextCancel(ctx, establishedPoll, true, func(ctx context.Context) (bool, error) {
		var now apiextensionsv1.CustomResourceDefinition
		err := c.Get(ctx, client.ObjectKeyFromObject(crd), &now)
		if err == nil {
			found = now
		}
		return apihelpers.IsCRDConditionTrue(&now, apiextensionsv1.Established), client.IgnoreNotFound(err)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("read CRD %s: %w", crd.Name, err)
	}
	problem := "the API server has not processed it yet"
	if names := apihelpers.FindCRDCondition(&found, apiextensionsv1.NamesAccepted); names != nil && names.Status == apiextensionsv1.ConditionFalse {
		problem = names.Message
	}
	return fmt.Errorf("CRD %s is not established: %s: %w", crd.Name, problem, err)
}
