// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Labels and annotations of the objects of this package.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "clusterfx"
	// annotationOwner has the hub's id and the Cluster's name, on every object.
	annotationOwner = "clusterfx.dev/owner"
	// annotationAccount and annotationAnchor, on the Secret in the hub, name objects in the remote.
	annotationAccount = "clusterfx.dev/service-account"
	annotationAnchor  = hubv1.AnnotationTokenSecret
	fieldOwner        = client.FieldOwner("clusterfx-cli")
)

// Account is the identity of the hub in a remote.
type Account struct {
	// The role and the binding have this Name, too.
	Namespace, Name string
	// Owner is the hub's id and the name of the Cluster.
	Owner string
	Rules []rbacv1.PolicyRule
	// Renews has the hub renew the token: the hub's account may request tokens for itself and for the account of rehearsals.
	Renews bool
	// Aggregates has a second role with all permissions of roles with the label hubv1.LabelAggregateToSync, which the owner of the remote
	// makes for rules of the module sync.
	Aggregates bool
	// Rehearses is for an account that a policy limits to dry runs.
	Rehearses bool
}

// Words of RBAC.
const (
	verbGet, verbCreate, verbUpdate, verbPatch, verbDelete = "get", "create", "update", "patch", "delete"
	clusterRoles, clusterRoleBindings                      = "clusterroles", "clusterrolebindings"
)

func accountName(cluster string) string { return "clusterfx-" + cluster }

// rehearsing is the account of rehearsals beside one of the hub, and rehearsalOf its owner: none may revoke the tokens of the other.
func rehearsing(account string) string { return account + "-rehearsal" }

func rehearsalOf(owner string) string { return owner + "/rehearsal" }

func ownerOf(hubID, cluster string) string { return hubID + "/" + cluster }

func (a Account) meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: a.Name,
		Labels:      map[string]string{labelManagedBy: managedBy},
		Annotations: map[string]string{annotationOwner: a.Owner},
	}
}

// objects are in the order of their creation.
func (a Account) objects() []client.Object {
	own, account := a.meta(a.Namespace), roles.Account(a.Namespace, a.Name)
	if a.Rehearses {
		return roles.DryRunOnly(own, a.Rules)
	}
	all := append(
		[]client.Object{&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: own}},
		roles.Bound(a.meta(""), a.Rules, account)...,
	)
	if a.Aggregates {
		all = append(all, a.aggregated(account)...)
	}
	if a.Renews {
		all = append(all, roles.Bound(own, []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{a.Name, rehearsing(a.Name)}, Verbs: []string{verbCreate},
		}}, account)...)
	}
	return all
}

// aggregated has a name of its own: rules in an aggregated role are lost.
func (a Account) aggregated(account rbacv1.Subject) []client.Object {
	meta := a.meta("")
	meta.Name += "-sync"
	all := roles.Bound(meta, nil, account)
	if role, ok := all[0].(*rbacv1.ClusterRole); ok {
		role.AggregationRule = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{hubv1.LabelAggregateToSync: "true"}}},
		}
	}
	return all
}

func (a Account) rights() []rbac.Right {
	var all []rbac.Right
	rules := Rules()
	if a.Rehearses {
		rules = append(rules, policyRules()...)
	}
	for _, right := range rbac.RightsOf(rules) {
		switch right.Resource {
		case clusterRoles, clusterRoleBindings, policies, policyBindings, "apiservices":
		default:
			right.Namespace = a.Namespace
		}
		all = append(all, right)
	}
	return append(all, rbac.Right{Verb: verbGet, Resource: "namespaces", Name: metav1.NamespaceSystem})
}

func (a Account) tokenRights() []rbac.Right {
	var all []rbac.Right
	for _, right := range a.rights() {
		if right.Group == "" && (right.Resource != "serviceaccounts" || right.Subresource != "") {
			all = append(all, right)
		}
	}
	return all
}

// Rules returns the permissions to register, beside the account's: Kubernetes lets users grant only what they have.
func Rules() []rbacv1.PolicyRule {
	verbs := []string{verbGet, verbCreate, verbDelete}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{verbCreate}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: append([]string{"list"}, verbs...)},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{clusterRoles, "roles"}, Verbs: append([]string{verbUpdate}, verbs...)},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{clusterRoleBindings, "rolebindings"}, Verbs: verbs},
	}
}

// requireRights names what the administrator lacks; without the verbs escalate and bind also the account's permissions. Only an
// administrator with them may make a role that aggregates others.
func (a *Account) requireRights(ctx context.Context, remote *access.Cluster) error {
	wanted := a.rights()
	over, err := remote.Lacks(ctx, []rbac.Right{
		{Verb: "escalate", Group: rbacv1.GroupName, Resource: clusterRoles},
		{Verb: "bind", Group: rbacv1.GroupName, Resource: clusterRoles},
	})
	if err != nil {
		return err
	}
	if len(over) > 0 {
		wanted, a.Aggregates = append(wanted, rbac.RightsOf(a.Rules)...), false
	}
	return remote.Require(ctx, wanted)
}

// make also updates the rules of the role.
func (a Account) make(ctx context.Context, remote *access.Cluster, options ...client.CreateOption) error {
	for _, desired := range a.objects() {
		if err := a.makeOne(ctx, remote, desired, options); err != nil {
			return err
		}
	}
	return nil
}

func (a Account) makeRenewal(ctx context.Context, remote *access.Cluster) error {
	for _, desired := range a.objects() {
		switch desired.(type) {
		case *rbacv1.Role, *rbacv1.RoleBinding:
			if err := a.makeOne(ctx, remote, desired, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a Account) makeOne(ctx context.Context, remote *access.Cluster, desired client.Object, options []client.CreateOption) error {
	what := nameOf(desired)
	found, _ := desired.DeepCopyObject().(client.Object)
	err := remote.Get(ctx, client.ObjectKeyFromObject(desired), found)
	if apierrors.IsNotFound(err) {
		return remote.Failed("create "+what, remote.Create(ctx, desired, append(options, fieldOwner)...))
	}
	if err != nil {
		return remote.Explain(fmt.Errorf("read %s: %w", what, err))
	}
	if err := a.check(remote, found, what); err != nil {
		return err
	}
	switch role := desired.(type) {
	case *rbacv1.ClusterRole:
		if role.AggregationRule != nil {
			return nil // An update would take all permissions away for a moment.
		}
	case *rbacv1.Role, *admissionv1.ValidatingAdmissionPolicy: // Only these can be out of date.
	default:
		return nil
	}
	if len(options) > 0 {
		return nil // a dry run
	}
	desired.SetResourceVersion(found.GetResourceVersion())
	return remote.Failed("update "+what, remote.Update(ctx, desired, fieldOwner))
}

// check fails if an object of that name belongs to another owner.
func (a Account) check(remote *access.Cluster, found client.Object, what string) error {
	owner := found.GetAnnotations()[annotationOwner]
	if owner == a.Owner {
		return nil
	}
	if owner = remote.Quote(owner); owner == "" {
		owner = "no Cluster"
	}
	return fmt.Errorf("%s exists in the remote and belongs to %s, not to %s: choose another name with --service-account, "+
		"or delete it if it is not used", what, owner, a.Owner)
}

// remove reports what it deletes.
func (a Account) remove(ctx context.Context, remote *access.Cluster) ([]string, error) {
	var errs []error
	removed, bad := a.revoke(ctx, remote, "")
	a.Renews, a.Aggregates = true, true                // The account may have the roles for these.
	for _, one := range slices.Backward(a.objects()) { // the permissions go before the user
		what := nameOf(one)
		err := remote.Get(ctx, client.ObjectKeyFromObject(one), one)
		if err == nil {
			if err = a.check(remote, one, what); err == nil {
				uid := one.GetUID()
				err = remote.Delete(ctx, one, client.Preconditions{UID: &uid})
			}
		}
		switch {
		case err == nil:
			removed = append(removed, what)
		case !apierrors.IsNotFound(err):
			errs = append(errs, remote.Explain(fmt.Errorf("delete %s: %w", what, err)))
		}
	}
	return removed, errors.Join(append(errs, bad)...)
}

func nameOf(o client.Object) string {
	kind := strings.ToLower(reflect.TypeOf(o).Elem().Name())
	if ns := o.GetNamespace(); ns != "" {
		return fmt.Sprintf("%s %s/%s", kind, ns, o.GetName())
	}
	return fmt.Sprintf("%s %s", kind, o.GetName())
}
