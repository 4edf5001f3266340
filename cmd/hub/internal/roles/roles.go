// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Hub is the hub that the roles are for.
type Hub struct {
	Namespace   string
	Impersonate bool
	// AppsNamespace has the ServiceAccounts of the apps.
	AppsNamespace string
}

// Names of the roles.
const (
	HubRole = "clusterfx-hub"
	// ModulesRole is the Role in each namespace of Rules.Modules.
	ModulesRole = "clusterfx-hub-modules"
	// AppsRole is the ClusterRole of the apps, and their Role in these namespaces.
	AppsRole = "clusterfx-apps"

	remoteRole = "clusterfx-remote"
)

// AppsNamespace returns the default namespace of the apps' ServiceAccounts: the hub's, with -apps.
func AppsNamespace(hub string) string { return hub + "-apps" }

// Roles returns the roles in the hub's cluster, in an order in which they can be created.
func (h *Hub) Roles(modules []registry.Module) []client.Object {
	var all []client.Object
	if h.Impersonate {
		all = h.ofApps(modules)
	}
	rules := OfHub(modules)
	all = append(all, Role(named("", HubRole), rules.Everywhere),
		Role(named(h.Namespace, HubRole), rules.Own), Role(named(metav1.NamespaceDefault, HubRole), rules.Events))
	for _, needed := range rules.Modules {
		all = append(all, Role(named(needed.Namespace, ModulesRole), needed.Rules))
	}
	return all
}

func (h *Hub) apps() string { return cmp.Or(h.AppsNamespace, AppsNamespace(h.Namespace)) }

// ofApps returns the ServiceAccounts' namespace, the role to impersonate only these, and the roles of the apps.
func (h *Hub) ofApps(modules []registry.Module) []client.Object {
	namespace := h.apps()
	all := []client.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
		},
		Role(named(namespace, HubRole), []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}},
		}),
	}
	for _, needed := range rbac.HubRules(modules...) {
		if needed.Namespace == registry.CredentialsNamespace {
			continue // Apps have no access to the namespace with the credentials.
		}
		all = append(all, Role(named(needed.Namespace, AppsRole), needed.Rules))
	}
	return all
}

// OfRemote returns the role in every remote.
func OfRemote(modules []registry.Module) client.Object {
	return Role(named("", remoteRole), rbac.RemoteRules(modules...))
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func kind(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// OfNATS returns the users of the NATS server with these buckets of entities, as configuration of nats-server.
func OfNATS(buckets ...string) string {
	text := "authorization {\n  users: [\n"
	for _, user := range []struct {
		comment, key string
		permissions  natshub.Permissions
	}{
		{"The hub: it follows the entities, and writes their status and its canary.", "PUBLIC_NKEY_OF_THE_HUB", natshub.HubPermissions(buckets...)},
		{"A writer of entities, such as a portal.", "PUBLIC_NKEY_OF_THE_WRITER", natshub.WriterPermissions(buckets...)},
	} {
		permissions := strings.ReplaceAll(user.permissions.String(), "\n", "\n      ")
		text += fmt.Sprintf("    # %s\n    {\n      nkey: %s\n      permissions: %s\n    }\n", user.comment, user.key, permissions)
	}
	return text + "  ]\n}\n"
}

// Role returns a Role, or a ClusterRole if there is no namespace.
func Role(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule) client.Object {
	meta = *meta.DeepCopy() // What an API server answers goes into the maps.
	if meta.Namespace == "" {
		return &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: merged(rules)}
	}
	return &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: merged(rules)}
}

// Bound returns a Role or a ClusterRole, and its binding, which has the same name.
func Bound(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, to ...rbacv1.Subject) []client.Object {
	return []client.Object{Role(meta, rules), binding(meta, to)}
}

func binding(meta metav1.ObjectMeta, to []rbacv1.Subject) client.Object {
	meta = *meta.DeepCopy()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
	if meta.Namespace == "" {
		ref.Kind = "ClusterRole"
		return &rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, RoleRef: ref, Subjects: to}
	}
	return &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, RoleRef: ref, Subjects: to}
}

// Account returns a ServiceAccount as a subject.
func Account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Rules are the permissions of a hub in its own cluster.
type Rules struct {
	// Own is for the namespace of the hub, Events for the namespace default.
	Everywhere, Own, Events []rbacv1.PolicyRule
	// Apps are for the whole cluster, if the apps act as ServiceAccounts.
	Apps []rbacv1.PolicyRule
	// Modules need these in other namespaces, which must exist.
	Modules []rbac.NamespacedRules
}

// OfHub returns the permissions of a hub with these modules in its own cluster.
func OfHub(modules []registry.Module) *Rules {
	rules := &Rules{
		Everywhere: cluster.Rules(),
		Own: merged(slices.Concat(
			cluster.CredentialsRules(), partreport.Rules(), renewal.Rules(), cluster.EventRules(), replica.Rules())),
		Events: cluster.EventRules(),
	}
	for _, needed := range rbac.HubRules(modules...) {
		rules.add(needed)
	}
	return rules
}

func (r *Rules) add(needed rbac.NamespacedRules) {
	switch i := slices.IndexFunc(r.Modules, func(known rbac.NamespacedRules) bool { return known.Namespace == needed.Namespace }); {
	case needed.Namespace == "":
		r.Everywhere, r.Apps = merged(append(r.Everywhere, needed.Rules...)), merged(append(r.Apps, needed.Rules...))
	case needed.Namespace == registry.CredentialsNamespace:
		r.Own = merged(append(r.Own, needed.Rules...))
	case i < 0:
		r.Modules = append(r.Modules, rbac.NamespacedRules{Namespace: needed.Namespace, Rules: merged(needed.Rules)})
	default:
		r.Modules[i].Rules = merged(append(r.Modules[i].Rules, needed.Rules...))
	}
}

// merged joins rules that differ in their verbs only: modules and the hub may need the same.
func merged(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, rule := range rules {
		i := slices.IndexFunc(all, func(known rbacv1.PolicyRule) bool {
			return slices.Equal(known.APIGroups, rule.APIGroups) && slices.Equal(known.Resources, rule.Resources) &&
				slices.Equal(known.ResourceNames, rule.ResourceNames) && slices.Equal(known.NonResourceURLs, rule.NonResourceURLs)
		})
		if i < 0 {
			rule.Verbs = slices.Clone(rule.Verbs)
			all = append(all, rule)
			continue
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains(all[i].Verbs, verb) {
				all[i].Verbs = append(all[i].Verbs, verb)
			}
		}
	}
	return all
}

const (
	// grantTimeout is for an API server that has to notice new roles, grantPeriod between two questions.
	grantTimeout = 30 * time.Second
	grantPeriod  = 20 * time.Millisecond
)

// Grant gives an account of the hub's cluster exactly the permissions of a hub with these modules: roles, bindings and
// missing namespaces. It returns when the API server applies them. A role that exists is an error, because it may grant
// more. The client must act as an administrator, and know the kinds of Kubernetes.
func (h *Hub) Grant(ctx context.Context, admin client.Client, modules []registry.Module, account rbacv1.Subject) error {
	for _, one := range h.Roles(modules) {
		g := grant{admin: admin, to: account}
		if one.GetName() == AppsRole {
			g.to = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: rbac.HubGroup(h.apps())}
		}
		if err := g.make(ctx, one); err != nil {
			return fmt.Errorf("grant the hub its permissions: %w", err)
		}
	}
	return nil
}

type grant struct {
	admin client.Client
	to    rbacv1.Subject
}

// make binds a role, and waits until it applies.
func (g grant) make(ctx context.Context, object client.Object) error {
	namespace := object.GetNamespace()
	var rules []rbacv1.PolicyRule
	switch role := object.(type) {
	case *corev1.Namespace:
		return g.ensureNamespace(ctx, role.Name)
	case *rbacv1.ClusterRole:
		rules = role.Rules
	case *rbacv1.Role:
		rules = role.Rules
		if err := g.ensureNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	for _, one := range []client.Object{object, binding(named(namespace, object.GetName()), []rbacv1.Subject{g.to})} {
		if err := g.admin.Create(ctx, one); err != nil {
			return fmt.Errorf("create %T %s: %w", one, client.ObjectKeyFromObject(one), err)
		}
	}
	return g.await(ctx, namespace, rules)
}

func (g grant) ensureNamespace(ctx context.Context, name string) error {
	err := g.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace %s: %w", name, err)
	}
	return nil
}

func (g grant) await(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
	for _, right := range rbac.RightsOf(rules) {
		right.Namespace = namespace
		err := wait.PollUntilContextTimeout(ctx, grantPeriod, grantTimeout, true, func(ctx context.Context) (bool, error) {
			review := &authorizationv1.SubjectAccessReview{Spec: g.reviewOf(right)}
			err := g.admin.Create(ctx, review)
			return review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("wait until %s may %s: %w", g.to.Name, right, err)
		}
	}
	return nil
}

func (g grant) reviewOf(right rbac.Right) authorizationv1.SubjectAccessReviewSpec {
	own := right.Review()
	spec := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: own.ResourceAttributes, NonResourceAttributes: own.NonResourceAttributes,
	}
	switch g.to.Kind {
	case rbacv1.GroupKind:
		spec.Groups = []string{g.to.Name}
	case rbacv1.ServiceAccountKind:
		spec.User = "system:serviceaccount:" + g.to.Namespace + ":" + g.to.Name
	default:
		spec.User = g.to.Name
	}
	return spec
}
