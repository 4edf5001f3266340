// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/diagnose"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// author returns a client of somebody who may write SyncRules, and has these permissions in a namespace and in all of them.
func author(t *testing.T, hub *fleet.Cluster, name string, inShop, everywhere []rbacv1.PolicyRule) client.Client {
	t.Helper()
	write := rbacv1.PolicyRule{
		APIGroups: []string{hubv1.GroupName}, Resources: []string{"syncrules"}, Verbs: []string{"get", "create", "update", "patch", "delete"},
	}
	credential, err := hub.MintToken(t.Context(), fleet.User{Name: name, Rules: append(everywhere, write), Lifetime: time.Hour})
	must(t, err)
	if len(inShop) > 0 {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: name}
		c := clientFor(t, hub)
		must(t, c.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: inShop}))
		must(t, c.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}},
		}))
	}
	return fleettest.ClientFor(t, credential.Config(), hubv1.AddToScheme)
}

func ruleFor(name string, change func(*hubv1.SyncRuleSpec)) *hubv1.SyncRule {
	r := &hubv1.SyncRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: hubv1.GroupVersion.String(), Kind: "SyncRule"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: hubv1.SyncRuleSpec{
			From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "Secret", Resource: "secrets"},
			Namespaces: hubv1.SyncNamespaces{Names: []string{"shop"}}, Objects: hubv1.SyncObjects{Names: []string{"registry"}},
			To: hubv1.SyncTarget{Naming: hubv1.SyncMirror},
		},
	}
	if change != nil {
		change(&r.Spec)
	}
	return r
}

func policyRule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// Promise: others than administrators of the hub's cluster write a SyncRule only if they may do themselves what the hub does there for
// it, and may sync with remotes; also as an update, a patch, an apply and a dry run.
func TestSyncRulePolicy(t *testing.T) {
	t.Parallel()
	hub := fleettest.Cluster(t, "authors")
	admin := clientFor(t, hub)
	d := newDiagnosed(t, "authors")
	if _, text := d.finds("policy"); !strings.Contains(text, "there is no policy clusterfx-syncrules") {
		t.Errorf("without the policy, hub check says %s", text)
	}
	must(t, install.Apply(t.Context(), admin, kustomize(t, "admission"), install.ApplyOptions{}))
	if levels, text := d.finds("policy"); !slices.Equal(levels, []diagnose.Level{diagnose.OK}) {
		t.Errorf("with the policy, hub check says %s", text)
	}
	for _, name := range []string{"shop", "other"} {
		must(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	reads := policyRule("", "secrets", "get", "list", "watch")
	syncs := policyRule(hubv1.GroupName, "clusters", "sync-to", "sync-from")
	blind := author(t, hub, "blind", []rbacv1.PolicyRule{policyRule("", "secrets", "list", "watch")}, []rbacv1.PolicyRule{syncs})
	reader := author(t, hub, "reader", []rbacv1.PolicyRule{reads}, []rbacv1.PolicyRule{policyRule(hubv1.GroupName, "clusters", "sync-to")})
	writer := author(t, hub, "writer", []rbacv1.PolicyRule{reads, policyRule("", "secrets", "create", "patch", "delete")}, []rbacv1.PolicyRule{syncs})
	whole := author(t, hub, "whole", nil, []rbacv1.PolicyRule{reads, syncs, policyRule("", "namespaces", "list")})
	alone := author(t, hub, "alone", nil, []rbacv1.PolicyRule{reads})

	// The policy applies a moment after it is there.
	eventually(t, func() error {
		if err := alone.Create(t.Context(), ruleFor("early", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("an author without the verb sync-to may write"), err)
		}
		return nil
	})
	into := func(namespace string) func(*hubv1.SyncRuleSpec) {
		return func(s *hubv1.SyncRuleSpec) {
			s.From, s.To.Namespace, s.Namespaces.Names = hubv1.SyncFromRemote, namespace, []string{"apps"}
		}
	}
	for name, test := range map[string]struct {
		by     client.Client
		change func(*hubv1.SyncRuleSpec)
		want   bool
	}{
		"reads them in its namespace":  {reader, nil, true},
		"cannot get them":              {blind, nil, false},
		"may not sync":                 {alone, nil, false},
		"no resource":                  {reader, func(s *hubv1.SyncRuleSpec) { s.Kind.Resource = "" }, false},
		"another namespace":            {reader, func(s *hubv1.SyncRuleSpec) { s.Namespaces.Names = []string{"other"} }, false},
		"one namespace more":           {reader, func(s *hubv1.SyncRuleSpec) { s.Namespaces.Names = []string{"shop", "other"} }, false},
		"namespaces by labels":         {reader, func(s *hubv1.SyncRuleSpec) { s.Namespaces = hubv1.SyncNamespaces{Selector: &hubv1.LabelSelector{}} }, false},
		"all namespaces by labels":     {whole, func(s *hubv1.SyncRuleSpec) { s.Namespaces = hubv1.SyncNamespaces{Selector: &hubv1.LabelSelector{}} }, true},
		"a template needs a finalizer": {whole, func(s *hubv1.SyncRuleSpec) { s.Namespaces = hubv1.SyncNamespaces{Template: "t-{{cluster}}"} }, false},
		"of a template it observes": {whole, func(s *hubv1.SyncRuleSpec) {
			s.Namespaces, s.Mode = hubv1.SyncNamespaces{Template: "t-{{cluster}}"}, hubv1.SyncObserve
		}, true},
		"into its namespace":                  {writer, into("shop"), true},
		"into another namespace":              {writer, into("other"), false},
		"into a namespace that it only reads": {reader, into("shop"), false},
		"into the namespaces of remotes":      {writer, into(""), false},
		"a definition that it cannot read": {whole, func(s *hubv1.SyncRuleSpec) {
			s.Kind, s.BringCRD = hubv1.SyncKind{APIVersion: "example.com/v1", Kind: "Order", Resource: "orders"}, hubv1.SyncCreateIfAbsent
		}, false},
		"the administrator": {admin, func(s *hubv1.SyncRuleSpec) { s.Kind.Resource = "" }, true},
	} {
		err := test.by.Create(t.Context(), ruleFor("dry", test.change), client.DryRunAll)
		if (err == nil) != test.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	expectUpdates(t, admin, reader, writer)
}

// expectUpdates tries what changes a rule that is there.
func expectUpdates(t *testing.T, admin, reader, writer client.Client) {
	t.Helper()
	must(t, reader.Create(t.Context(), ruleFor("mine", nil)))
	wide := func(spec *hubv1.SyncRuleSpec) { spec.Namespaces.Names = []string{"other"} }
	must(t, admin.Create(t.Context(), ruleFor("foreign", wide)))
	merge := func(by client.Client, name, patch string) error {
		return by.Patch(t.Context(), ruleFor(name, nil), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	apply := func(by client.Client, name string, change func(*hubv1.SyncRuleSpec), options ...client.ApplyOption) error {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ruleFor(name, change))
		must(t, err)
		delete(fields, "status")
		one := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
		return by.Apply(t.Context(), one, append(options, client.FieldOwner("author"), client.ForceOwnership)...)
	}
	update := func(by client.Client, name string, change func(*hubv1.SyncRuleSpec)) error {
		var found hubv1.SyncRule
		must(t, by.Get(t.Context(), client.ObjectKey{Name: name}, &found))
		change(&found.Spec)
		return by.Update(t.Context(), &found)
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"an update that widens":        {update(reader, "mine", wide), false},
		"a patch that widens":          {merge(reader, "mine", `{"spec":{"namespaces":{"names":["shop","other"]}}}`), false},
		"an apply that widens":         {apply(reader, "mine", wide), false},
		"a dry run that widens":        {apply(reader, "mine", wide, client.DryRunAll), false},
		"an update within":             {update(reader, "mine", func(s *hubv1.SyncRuleSpec) { s.Objects.Names = []string{"registry", "more"} }), true},
		"an apply of a new rule":       {apply(reader, "new", nil), true},
		"an apply of a wide rule":      {apply(reader, "wide", wide), false},
		"taking over a foreign rule":   {merge(writer, "foreign", `{"spec":{"namespaces":{"names":["shop"]}}}`), false},
		"an annotation of a foreign":   {merge(reader, "foreign", `{"metadata":{"annotations":{"clusterfx.dev/allow-held":"1"}}}`), false},
		"a label of a foreign":         {merge(reader, "foreign", `{"metadata":{"labels":{"team":"shop"}}}`), true},
		"a finalizer, as the hub does": {merge(reader, "foreign", `{"metadata":{"finalizers":["example.com/of-the-hub"]}}`), true},
		"the administrator's update":   {update(admin, "mine", wide), true},
	} {
		if (test.err == nil) != test.want || test.err != nil && !apierrors.IsForbidden(test.err) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
}

// No role for people has SyncRules: bind one to those who may write them.
func TestRoles_WithoutSyncRules(t *testing.T) {
	t.Parallel()
	for _, one := range kustomize(t, "default") {
		if one.GetKind() != "ClusterRole" || one.GetName() == "clusterfx-hub" {
			continue
		}
		for _, rule := range into[rbacv1.ClusterRole](t, one).Rules {
			if slices.Contains(rule.Resources, "syncrules") || slices.Contains(rule.Resources, "*") {
				t.Errorf("%s has SyncRules", one.GetName())
			}
		}
	}
}
