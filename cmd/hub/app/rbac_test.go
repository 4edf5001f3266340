// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// roles returns the documents that "hub rbac" of the stock hub prints.
func (h *hub) roles(args ...string) (rendered []string) {
	h.t.Helper()
	return h.rolesOf(modules.All(), args...)
}

func (h *hub) rolesOf(modules []registry.Module, args ...string) (rendered []string) {
	h.t.Helper()
	code, out, problems := h.execute(modules, append([]string{"rbac"}, args...)...)
	if code != 0 {
		h.t.Fatal(problems)
	}
	for text := range strings.SplitSeq(out, "---\n") {
		if strings.TrimSpace(text) != "" {
			rendered = append(rendered, text)
		}
	}
	return rendered
}

// grant creates the printed roles, and binds each to a user; the roles of apps are bound to the group of their ServiceAccounts.
func grant(t *testing.T, c client.Client, user string, rendered []string) {
	t.Helper()
	create := func(object client.Object) {
		object.SetName(user + "-" + object.GetName())
		if err := c.Create(t.Context(), object, client.FieldValidation(metav1.FieldValidationStrict)); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	apps := ""
	for _, text := range rendered {
		var kind metav1.TypeMeta
		must(t, yaml.Unmarshal([]byte(text), &kind))
		if kind.Kind == "Namespace" {
			ns := &corev1.Namespace{}
			decode(t, text, ns)
			if err := c.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			apps = ns.Name
			continue
		}
		role := &rbacv1.Role{}
		decode(t, text, role)
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
		if role.Name == "clusterfx-apps" {
			subjects[0].Kind, subjects[0].Name = rbacv1.GroupKind, "system:serviceaccounts:"+apps
		}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind.Kind, Name: user + "-" + role.Name}
		binding := metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace}
		if kind.Kind == "ClusterRole" {
			create(&rbacv1.ClusterRole{ObjectMeta: role.ObjectMeta, Rules: role.Rules})
			create(&rbacv1.ClusterRoleBinding{ObjectMeta: binding, RoleRef: ref, Subjects: subjects})
		} else {
			create(role)
			create(&rbacv1.RoleBinding{ObjectMeta: binding, RoleRef: ref, Subjects: subjects})
		}
	}
}

func decode(t *testing.T, text string, into client.Object) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// A hub whose users have exactly the roles that it prints does all of its work: it is elected, registers a remote, runs its modules,
// creates its journal, records events about Clusters and Secrets, and completes the removal of a Cluster. The Cluster is Authorized.
func TestRBAC_IsEnough(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	remote := fleettest.Cluster(t, "remote")
	in := clientFor(t, remote)
	user, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: "exactly"})
	h.must(err)
	there, err := remote.MintCertificate(t.Context(), fleet.User{Name: "exactly"})
	h.must(err)
	grant(t, h.Client, "exactly", h.roles("--in=hub"))
	grant(t, in, "exactly", h.roles("--in=remote"))

	o := h.options(modules.All()...)
	o.Config = user.Config()
	o = withReplicas(o, "exactly")
	h.run(o)
	h.register("exactly", there.Kubeconfig())
	h.expectReady("exactly", metav1.ConditionTrue)
	var found hubv1.Cluster
	eventually(t, func() error {
		if err := h.Get(t.Context(), client.ObjectKey{Name: "exactly"}, &found); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(found.Status.Conditions, hubv1.ConditionAuthorized) || found.Status.Inventory.Nodes == nil {
			return fmt.Errorf("the Cluster is not Authorized, or has no count of Nodes: %+v", found.Status)
		}
		return nil
	})
	eventually(t, func() error { // The hub records the starts of apps in its journal.
		return h.Get(t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: cluster.JournalName}, &corev1.ConfigMap{})
	})
	h.expectEvent(metav1.NamespaceDefault, &found, hubv1.ReasonReady)
	h.expectRefusal("exactly")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "exactly"}}
	h.must(h.Delete(t.Context(), secret))
	h.must(h.Delete(t.Context(), &found))
	fleettest.Gone(t, h, &found)
	h.expectEvent(metav1.NamespaceDefault, &found, "Deregistered")
	h.expectByName(user.Config())
}

// expectRefusal waits until the hub records that it does not register a Secret, because another Secret registered a
// Cluster of that name.
func (h *hub) expectRefusal(name string) {
	h.t.Helper()
	second := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: hubv1.DefaultNamespace, GenerateName: "second-",
		Labels:      map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		Annotations: map[string]string{hubv1.AnnotationClusterName: name},
	}}
	h.must(h.Create(h.t.Context(), second))
	h.expectEvent(hubv1.DefaultNamespace, second, "NotAdopted")
	h.must(h.Delete(h.t.Context(), second))
}

// expectEvent waits until the API server has an event about the object in this namespace.
func (h *hub) expectEvent(namespace string, about client.Object, reason string) {
	h.t.Helper()
	eventually(h.t, func() error {
		var events eventsv1.EventList
		if err := h.List(h.t.Context(), &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		var others []string
		for _, e := range events.Items {
			if e.Regarding.UID == about.GetUID() && e.Reason == reason {
				return nil
			}
			if e.Regarding.UID == about.GetUID() {
				others = append(others, e.Reason)
			}
		}
		return fmt.Errorf("the events about %s in %s are %v, want %s", about.GetName(), namespace, others, reason)
	})
}

// expectByName fails the test unless the user may read and write the hub's own ConfigMaps, may write but not read its report, and is
// denied other ConfigMaps of the credentials namespace.
func (h *hub) expectByName(config *rest.Config) {
	h.t.Helper()
	c, err := client.New(config, client.Options{Scheme: h.Scheme()})
	h.must(err)
	key := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}
	}
	others := []client.Object{&corev1.ConfigMap{ObjectMeta: key("another")}}
	for _, other := range others {
		h.must(h.Create(h.t.Context(), other))
		for verb, err := range map[string]error{
			"get":    c.Get(h.t.Context(), client.ObjectKeyFromObject(other), other),
			"update": c.Update(h.t.Context(), other),
			"patch":  c.Patch(h.t.Context(), other, client.RawPatch(types.MergePatchType, []byte("{}"))),
			"delete": c.Delete(h.t.Context(), other),
		} {
			if !apierrors.IsForbidden(err) {
				h.t.Errorf("the hub may %s another %T: %v", verb, other, err)
			}
		}
		h.must(h.Delete(h.t.Context(), other))
	}
	for _, name := range []string{cluster.JournalName, cluster.HoldsName} {
		own := &corev1.ConfigMap{ObjectMeta: key(name)}
		h.must(client.IgnoreAlreadyExists(h.Create(h.t.Context(), own.DeepCopy())))
		h.must(c.Get(h.t.Context(), client.ObjectKeyFromObject(own), own))
		h.must(c.Patch(h.t.Context(), own, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll))
	}
	report := &corev1.ConfigMap{ObjectMeta: key("clusterfx-modules")}
	h.must(client.IgnoreAlreadyExists(h.Create(h.t.Context(), report.DeepCopy())))
	h.must(c.Patch(h.t.Context(), report, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll))
	if err := c.Get(h.t.Context(), client.ObjectKeyFromObject(report), report); !apierrors.IsForbidden(err) {
		h.t.Errorf("the hub may read its report: %v", err)
	}
}

// limitedModule returns a module whose rules in the hub apply to one namespace.
func limitedModule() registry.Module {
	return registry.NewModule("limited", registry.ModuleOptions{
		HubRules: []rbacv1.PolicyRule{
			{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "delete"}},
		},
		HubNamespaces: []string{"limited"},
	})
}

// The roles of a hub with a module that has HubNamespaces permit the hub, and apps that act as ServiceAccounts, to create
// and delete ConfigMaps in these namespaces only. Rules on Clusters apply.
func TestRBAC_HubNamespaces(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}}
	if err := h.Create(t.Context(), ns); !apierrors.IsAlreadyExists(err) {
		h.must(err)
	}
	for user, flags := range map[string][]string{"limited": {"--in=hub"}, "limited-apps": {"--in=hub", "--impersonate-apps"}} {
		credential, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: user})
		h.must(err)
		grant(t, h.Client, user, h.rolesOf([]registry.Module{limitedModule()}, flags...))
		h.expectLimited(credential.Config())
		if user == "limited-apps" {
			app := credential.Config()
			app.Impersonate.UserName = "system:serviceaccount:" + appsNamespace + ":any"
			h.expectLimited(app)
		}
	}
}

// expectLimited fails the test unless a user has the permissions of limitedModule, and no more on ConfigMaps.
func (h *hub) expectLimited(config *rest.Config) {
	t := h.t
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: h.Scheme()})
	h.must(err)
	expectWrites := func(namespace string, allowed bool) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "made-by-limited"}}
		for verb, err := range map[string]error{
			"create": c.Create(t.Context(), cm.DeepCopy(), client.DryRunAll),
			"delete": client.IgnoreNotFound(c.Delete(t.Context(), cm, client.DryRunAll)),
		} {
			if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
				t.Errorf("%s a ConfigMap in %s as %q: %v, want allowed %t", verb, namespace, config.Impersonate.UserName, err, allowed)
			}
		}
	}
	eventually(t, func() error { // RBAC takes a moment to take effect.
		return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Name: "none"}, &hubv1.Cluster{}))
	})
	eventually(t, func() error {
		return client.IgnoreNotFound(c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "none"}}))
	})
	expectWrites("limited", true)
	expectWrites(metav1.NamespaceDefault, false)
	expectWrites(metav1.NamespaceSystem, false)
}

// hub rbac refuses wrong arguments with advice.
func TestRBAC_Refused(t *testing.T) {
	t.Parallel()
	h := &hub{t: t}
	for args, want := range map[string]string{
		"--in=both":        "use hub, remote or nats",
		"-o=table":         "use yaml or json",
		"--modules=invent": "it has inventory",
		"all":              "rbac takes no arguments",
		"--impersonate-apps --apps-namespace=kube-system":      "use a namespace that holds nothing else",
		"--impersonate-apps --apps-namespace=kube-public":      "use a namespace that holds nothing else",
		"--impersonate-apps --apps-namespace=clusterfx-system": "use a namespace that holds nothing else",
		"--impersonate-apps --apps-namespace=A":                `--apps-namespace="A" is not a name`,
	} {
		code, _, problems := h.execute(modules.All(), append([]string{"rbac"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(problems, want) {
			t.Errorf("hub rbac %s prints %q (exit status %d), want %q", args, problems, code, want)
		}
	}
}
