// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

const fieldManager = "clusterfx-install"

// ApplyOptions say how objects are applied.
type ApplyOptions struct {
	// ForceConflicts takes over fields of other field managers. Default: a conflict is an error.
	ForceConflicts bool
	// DryRun lets the API server check the objects and keep none. Default: it keeps them.
	DryRun bool
	// Applied is called after each object. Default: not called.
	Applied func(*unstructured.Unstructured)
}

// Apply applies the objects on the server's side, one after the other, and fails at the first refused object;
// the objects applied until then stay, and a second run continues from there. The Deployment of an installed hub is tried
// first: if the API server refuses it, nothing is changed. The API server refuses fields that it does not know. Apply
// blocks for one request per object, and two for that trial, as long as ctx allows.
func Apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, o ApplyOptions) error {
	options := []client.PatchOption{client.FieldOwner(fieldManager)}
	if o.ForceConflicts {
		options = append(options, client.ForceOwnership)
	}
	if o.DryRun {
		options = append(options, client.DryRunAll)
	}
	// The method Apply of such a client does not ask for strictness, a patch does.
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	if err := tryDeployment(ctx, c, objects, options); err != nil {
		return err
	}
	for _, object := range objects {
		if err := apply(ctx, c, object, options); err != nil {
			return err
		}
		if o.Applied != nil {
			o.Applied(object)
		}
	}
	return nil
}

// tryDeployment applies the Deployment of an installed hub in a dry run: a conflict there would otherwise come after the
// ConfigMap with the configuration has been replaced.
func tryDeployment(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, options []client.PatchOption) error {
	object := deploymentIn(objects)
	if object == nil {
		return nil
	}
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for Deployment %s: %w", object.GetName(), err)
	}
	return apply(ctx, c, object, append(slices.Clone(options), client.DryRunAll))
}

func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured, options []client.PatchOption) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	// The client decodes the response into the sent object, so send a copy: the caller's object stays unchanged.
	response := object.DeepCopy()
	err = c.Patch(ctx, response, client.RawPatch(types.ApplyPatchType, text), options...)
	if apierrors.IsConflict(err) {
		err = fmt.Errorf("%w; --force-conflicts takes over these fields and overwrites the values of the other managers", err)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Leftovers returns a warning for each role that may be of an earlier installation of this hub, as its name says, and that
// these objects do not replace, with the command that removes it: Roles for namespaces that modules no longer name. It
// changes nothing, and says nothing if it may not list roles.
func Leftovers(ctx context.Context, c client.Reader, objects []*unstructured.Unstructured) ([]string, error) {
	var found rbacv1.RoleList
	if err := c.List(ctx, &found); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("look for roles of earlier installations: %w", err)
	}
	var all []string
	for _, role := range found.Items {
		if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Role" && o.GetNamespace() == role.Namespace && o.GetName() == role.Name
		}) {
			continue
		}
		if role.Name == roles.ModulesRole || role.Name == roles.AppsRole {
			all = append(all, fmt.Sprintf("Role %s in namespace %s is not of this installation; "+
				"unless its RoleBinding names another hub that runs, it is of an earlier one, and to be removed: kubectl delete role,rolebinding %s --namespace %s", role.Name, role.Namespace, role.Name, role.Namespace))
		}
	}
	return all, nil
}
