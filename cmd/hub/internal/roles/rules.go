// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// ReadRules reads the SyncRules among YAML or JSON documents and their lists.
func ReadRules(text []byte) ([]rules.Rule, error) {
	all, err := access.Objects(text)
	if err != nil {
		return nil, err
	}
	return RulesIn(all)
}

// RulesIn returns the SyncRules among objects and their lists.
func RulesIn(objects []*unstructured.Unstructured) ([]rules.Rule, error) {
	var all []rules.Rule
	for _, one := range objects {
		if one.IsList() {
			var inside []*unstructured.Unstructured
			err := one.EachListItem(func(item runtime.Object) error {
				inside = append(inside, item.(*unstructured.Unstructured))
				return nil
			})
			found, of := RulesIn(inside)
			if err := errors.Join(err, of); err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		if one.GroupVersionKind() != hubv1.GroupVersion.WithKind("SyncRule") {
			continue
		}
		var rule hubv1.SyncRule
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(one.Object, &rule, true); err != nil {
			return nil, fmt.Errorf("SyncRule %s: %w", one.GetName(), err)
		}
		compiled, err := rules.Compile(&rule)
		if err != nil {
			return nil, fmt.Errorf("SyncRule %s: %w", one.GetName(), err)
		}
		all = append(all, compiled)
	}
	return all, nil
}

// FindResource has an API server name the resource of the rule's kind, unless the rule does.
func FindResource(of meta.RESTMapper, r *rules.Rule) error {
	if r.Kind.Resource != "" {
		return nil
	}
	found, err := of.RESTMapping(r.GVK().GroupKind(), r.GVK().Version)
	if err != nil {
		return fmt.Errorf("SyncRule %s: name kind.resource, since the hub's cluster does not: %w", r.Name, err)
	}
	r.Kind.Resource = found.Resource.Resource
	return nil
}

func nameOfRule(r rules.Rule) string { return "clusterfx-sync-" + r.Name }

// OfRuleInRemote returns the role for a rule in remotes, which the account of the hub gets by its label.
func OfRuleInRemote(r rules.Rule) client.Object {
	role := Role(named("", nameOfRule(r)), r.Permissions().Remote)
	role.SetLabels(map[string]string{hubv1.LabelAggregateToSync: "true"})
	return role
}

// OfRule returns the roles for a rule in the hub, bound to the hub's account.
func (h *Hub) OfRule(r rules.Rule) []client.Object {
	subjects := []rbacv1.Subject{Account(h.Namespace, HubRole)}
	if h.Impersonate {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: rbac.HubGroup(h.apps())})
	}
	var all []client.Object
	for _, needed := range rbac.HubRules(permissionsOf{r}) {
		all = append(all, Bound(named(needed.Namespace, nameOfRule(r)), needed.Rules, subjects...)...)
	}
	return all
}

// AddRules adds what the SyncRules of the hub need there.
func (r *Rules) AddRules(ctx context.Context, hub client.Reader, kinds meta.RESTMapper) error {
	var list hubv1.SyncRuleList
	if err := hub.List(ctx, &list); err != nil && !apierrors.IsNotFound(err) { // The hub may be too old to have them.
		return fmt.Errorf("list the SyncRules: %w", err)
	}
	var followed permissionsOf
	for i := range list.Items {
		one, err := rules.Compile(&list.Items[i])
		if err != nil || FindResource(kinds, &one) != nil {
			continue // The hub does not follow it, either.
		}
		followed = append(followed, one)
	}
	for _, needed := range rbac.HubRules(followed) {
		r.add(needed)
	}
	return nil
}

// permissionsOf joins what rules need in each namespace.
type permissionsOf []rules.Rule

func (permissionsOf) Rules() []rbacv1.PolicyRule    { return nil }
func (permissionsOf) HubRules() []rbacv1.PolicyRule { return nil }
func (permissionsOf) HubNamespaces() []string       { return nil }
func (p permissionsOf) ConfigHubRules() (all []rbac.NamespacedRules) {
	for _, r := range p {
		all = append(all, r.Permissions().Hub...)
	}
	return all
}
