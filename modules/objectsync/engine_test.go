// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// hasProblem waits until the status of a rule has a problem in Cluster a.
func hasProblem(t *testing.T, hub *hubtest.Hub, rule string, reason hubv1.SyncProblemReason) (found hubv1.SyncProblem) {
	t.Helper()
	r := &hubv1.SyncRule{ObjectMeta: meta("", rule, nil)}
	hub.WaitFor(r, func() error {
		for _, replica := range r.Status.Replicas {
			i := slices.IndexFunc(replica.Problems, func(p hubv1.SyncProblem) bool { return p.Reason == reason && p.Cluster == "a" })
			if i >= 0 {
				found = replica.Problems[i]
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", r.Status)
	})
	return found
}

// counts waits until a namespace has so many copies of ConfigMaps.
func counts(t testing.TB, s *hubtest.Server, namespace string, want int) {
	t.Helper()
	s.Eventually(func() error {
		var all corev1.ConfigMapList
		err := s.Client().List(t.Context(), &all, client.InNamespace(namespace), client.HasLabels{"sync.clusterfx.dev/managed-by"})
		return cmp.Or(err, unless(len(all.Items) == want, len(all.Items)))
	})
}

func fillWith(hub *hubtest.Hub, namespace string, n int, labels map[string]string) {
	for i := range n {
		hub.Create(configMap(namespace, fmt.Sprint("object-", i), labels))
	}
}

const edits = `
some: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, objects: {selector: {matchLabels: {go: down}}}, to: {naming: Mirror}}
other: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [office]}, to: {naming: Mirror}}
`

// shopAndOffice is a hub with the originals of edits.
func shopAndOffice(t *testing.T) (*hubtest.Hub, *hubtest.Remote) {
	t.Helper()
	hub := hubOf(t, edits)
	a := hub.Remote("a")
	for _, name := range []string{"shop", "office"} {
		hub.Create(namespace(name, nil))
		a.Create(namespace(name, nil))
	}
	fillWith(hub, "shop", 30, map[string]string{"go": "down"})
	fillWith(hub, "office", 4, nil)
	return hub, a
}

// Rules come, change and go while the app runs. What an edit gives up is deleted after a moment, but not beyond the limits: then the rule
// is Held, and no other rule is; an annotation with the generation allows it. Rules of one kind and direction share a controller.
func TestEngine_Edits(t *testing.T) {
	t.Parallel()
	hub, a := shopAndOffice(t)
	hub.Create(configMap("shop", "unselected", nil))
	counts(t, &a.Server, "shop", 30)
	counts(t, &a.Server, "office", 4)

	hub.Restart() // What a rule has created a moment ago pays for what it gives up.
	a.WaitReady()
	before, _ := hub.Registry().Status("a")
	editRule(t, hub, "other", func(r *hubv1.SyncRule) { r.Spec.Objects.Names = []string{"object-0", "object-1", "object-2"} })
	counts(t, &a.Server, "office", 3)

	var generation int64
	editRule(t, hub, "some", func(r *hubv1.SyncRule) {
		r.Spec.Objects.Selector.MatchLabels = map[string]hubv1.LabelValue{"go": "up"}
		generation = r.Generation + 1
	})
	hasProblem(t, hub, "some", hubv1.SyncHeld)
	var left corev1.ConfigMapList
	testkit.Must(t, a.Client().List(t.Context(), &left, client.InNamespace("shop"), client.HasLabels{"sync.clusterfx.dev/managed-by"}))
	if len(left.Items) < 15 {
		t.Errorf("%d copies are left of 30 before anybody has allowed it", len(left.Items))
	}
	editRule(t, hub, "other", func(r *hubv1.SyncRule) { r.Spec.Objects.Names = []string{"object-0", "object-1"} })
	counts(t, &a.Server, "office", 2)

	editRule(t, hub, "some", func(r *hubv1.SyncRule) {
		r.Annotations = map[string]string{hubv1.AnnotationAllowHeld: fmt.Sprint(generation)}
	})
	counts(t, &a.Server, "shop", 0)
	after, _ := hub.Registry().Status("a")
	if after.Epoch != before.Epoch {
		t.Errorf("the app was started again: epoch %d, then %d", before.Epoch, after.Epoch)
	}
	var controllers []string
	for _, one := range after.Modules[0].Controllers {
		controllers = append(controllers, one.Name)
	}
	testkit.Equal(t, controllers, []string{"sync-rules", "sync-hub-configmap"}, "controllers of two rules of one kind and direction")
}

// Originals that have gone while no hub ran leave no evidence: half of their copies are deleted, on behalf of their rule, and the rest is
// held, of that rule alone.
func TestEngine_Absent(t *testing.T) {
	t.Parallel()
	hub, a := shopAndOffice(t)
	counts(t, &a.Server, "shop", 30)
	counts(t, &a.Server, "office", 4)
	hub.Stop()
	for i := range 30 {
		hub.Delete(configMap("shop", fmt.Sprint("object-", i), nil))
	}
	hub.Delete(configMap("office", "object-0", nil))
	hub.Start()
	hasProblem(t, hub, "some", hubv1.SyncHeld)
	counts(t, &a.Server, "shop", 15)
	counts(t, &a.Server, "office", 3)
	held := hub.Registry().HeldDeletes()
	testkit.Equal(t, len(held), 1, "holds")
	testkit.Equal(t, held[0].Cause, "rule some")
}

const moves = `
mirror: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, to: {naming: Mirror, namespace: old}}
orders: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {template: "tenant-{{cluster}}"}, to: {naming: Mirror, namespace: orders}}
back: {from: Remote, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [reports]}, to: {naming: Mirror, namespace: inbox}}
`

// Copies move when a rule gets another address for them: a copy is made there first, so that a move pays for itself and is not held; where
// the new address belongs to somebody else, the old copy stays. An original with a copy at an old address can be deleted.
func TestEngine_Moves(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, moves, hubtest.ModuleConfig("sync", "config: {limits: {objects: 100}}"))
	a := hub.Remote("a")
	for _, name := range []string{"old", "new", "orders", "reports"} {
		a.Create(namespace(name, nil))
	}
	for _, name := range []string{"shop", "tenant-a", "inbox", "archive"} {
		hub.Create(namespace(name, nil))
	}
	fillWith(hub, "shop", 50, nil)
	hub.Create(configMap("tenant-a", "order", nil))
	a.Create(configMap("new", "object-7", nil), configMap("reports", "report", nil))
	counts(t, &a.Server, "old", 50)
	counts(t, &a.Server, "orders", 1)
	counts(t, &hub.Server, "inbox", 1)

	changes, err := a.Client().Watch(t.Context(), &corev1.ConfigMapList{}, client.HasLabels{"sync.clusterfx.dev/managed-by"})
	testkit.Must(t, err)
	defer changes.Stop()
	editRule(t, hub, "mirror", func(r *hubv1.SyncRule) { r.Spec.To.Namespace = "new" })
	there := map[string]int{}
	for gone := 0; gone < 49; {
		e := <-changes.ResultChan()
		one := e.Object.(*corev1.ConfigMap)
		switch {
		case one.Namespace == "new" && e.Type == "ADDED":
			there[one.Name]++
		case one.Namespace == "old" && e.Type == "DELETED":
			if gone++; there[one.Name] == 0 {
				t.Errorf("%s has left its old address before it was at the new one", one.Name)
			}
		}
	}
	counts(t, &a.Server, "new", 49)
	counts(t, &a.Server, "old", 1)
	hasProblem(t, hub, "mirror", hubv1.SyncConflict)

	editRule(t, hub, "back", func(r *hubv1.SyncRule) { r.Spec.To.Namespace = "archive" })
	counts(t, &hub.Server, "archive", 1)
	counts(t, &hub.Server, "inbox", 0)

	editRule(t, hub, "orders", func(r *hubv1.SyncRule) { r.Spec.To.Namespace = "missing" })
	hasProblem(t, hub, "orders", hubv1.SyncNamespaceMissing)
	counts(t, &a.Server, "orders", 1)
	hub.Delete(configMap("tenant-a", "order", nil))
	counts(t, &a.Server, "orders", 0)
	hub.WaitGone(configMap("tenant-a", "order", nil))
}

const modes = `
create:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [shop]}
  mode: Create
  to: {naming: Mirror, namespace: made, createNamespace: IfAbsent}
  keepKeys: [argocd.argoproj.io/instance]
  dropKeys: [example.com/private]
`

// Mode Create makes a copy whenever it is absent, and never changes it; a namespace is made if the rule says so; keepKeys are copied
// although tools of one cluster use them, and dropKeys are not.
func TestEngine_Create(t *testing.T) {
	t.Parallel()
	hub := restrictedHub(t, modes)
	a := hub.Remote("a")
	original := configMap("shop", "one", map[string]string{"argocd.argoproj.io/instance": "app", "example.com/private": "1", "example.com/public": "1"})
	hub.Create(original)
	copied := configMap("made", "one", nil)
	exists(a, copied)
	if l := copied.Labels; l["argocd.argoproj.io/instance"] != "app" || l["example.com/private"] != "" || l["example.com/public"] != "1" {
		t.Errorf("the copy has the labels %v", l)
	}
	patch(t, &a.Server, copied, `{"data":{"k":"theirs"}}`)
	patch(t, &hub.Server, original, `{"data":{"k":"changed"}}`)
	hub.Create(configMap("shop", "two", nil))
	exists(a, configMap("made", "two", nil))
	exists(a, copied)
	testkit.Equal(t, copied.Data["k"], "theirs", "a copy was changed")
	a.Delete(copied)
	again := configMap("made", "one", nil)
	a.WaitFor(again, func() error { return unless(again.UID != copied.UID && again.Data["k"] == "changed", again.Data) })
	hub.Delete(original)
	a.WaitGone(again)
}

const lacking = `
secrets: {from: Hub, kind: {apiVersion: v1, kind: Secret}, namespaces: {names: [default]}, objects: {selector: {matchLabels: {go: down}}}, to: {naming: Mirror}}
widgets: {from: Hub, kind: {apiVersion: test.example.com/v1, kind: Widget}, namespaces: {names: [default]}, to: {naming: Mirror}}
versions: {from: Hub, kind: {apiVersion: apps/v9, kind: Deployment, resource: deployments}, namespaces: {names: [default]}, to: {naming: Mirror}}
lies: {from: Hub, kind: {apiVersion: v1, kind: Secret, resource: configmaps}, namespaces: {names: [default]}, objects: {names: [one]}, to: {naming: Mirror}}
works: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [default]}, objects: {selector: {matchLabels: {go: down}}}, to: {naming: Mirror}}
`

// What a rule lacks in a remote stops it there, and nothing else: neither the app nor another rule. It is named in the status, and followed
// when it is there. Without its permission a rule makes nothing Stale and holds no deletes of other rules; with it, the rule continues.
func TestEngine_Lacks(t *testing.T) {
	t.Parallel()
	all := rulesOf(t, lacking)
	works := all[slices.IndexFunc(all, func(r *hubv1.SyncRule) bool { return r.Name == "works" })]
	secrets := all[slices.IndexFunc(all, func(r *hubv1.SyncRule) bool { return r.Name == "secrets" })]
	widgets := all[slices.IndexFunc(all, func(r *hubv1.SyncRule) bool { return r.Name == "widgets" })]
	hub := hubOf(t, "{}", remoteRules(t, works, widgets))
	create(hub, slices.DeleteFunc(all, func(r *hubv1.SyncRule) bool { return r.Name == "versions" }))
	a := hub.Remote("a")
	down := map[string]string{"go": "down"}
	hub.Create(configMap("default", "one", down), configMap("default", "two", down))
	exists(a, configMap("default", "one", nil))
	lacks := hasProblem(t, hub, "secrets", hubv1.SyncPermissionMissing)
	if !strings.Contains(lacks.Object, "secrets") {
		t.Errorf("the status says %q", lacks.Object)
	}
	hasProblem(t, hub, "widgets", hubv1.SyncKindMissing)
	hasProblem(t, hub, "lies", hubv1.SyncKindMissing) // The policy for authors has asked for configmaps.
	testkit.Eventually(t, func() error {
		var found hubv1.SyncRule
		if err := hub.Client().Get(t.Context(), client.ObjectKey{Name: "secrets"}, &found); err != nil {
			return err
		}
		if ready := apimeta.FindStatusCondition(found.Status.Conditions, hubv1.ConditionReady); !strings.Contains(ready.Message, "hub rbac --in remote --rules - | kubectl --context a apply -f -") {
			return fmt.Errorf("the condition Ready does not say how to grant the permission: %s", ready.Message)
		}
		return nil
	})
	a.WaitReady()

	hub.InstallCRDs(fleettest.CRD(t, widgetKind, ""))
	a.InstallCRDs(fleettest.CRD(t, widgetKind, ""))
	hub.Create(widget("default"))
	exists(a, widget("default"))

	role := &rbacv1.ClusterRole{ObjectMeta: meta("", "later", nil), Rules: compiled(t, secrets).Permissions().Remote}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "later", nil), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "later", APIGroup: rbacv1.GroupName}}
	binding.Subjects = append(binding.Subjects, usersOf(t, a)...)
	a.Create(role, binding)
	hub.Create(&corev1.Secret{ObjectMeta: meta("default", "token", down)})
	exists(a, &corev1.Secret{ObjectMeta: meta("default", "token", nil)})

	a.Delete(binding)
	patch(t, &hub.Server, &corev1.Secret{ObjectMeta: meta("default", "token", nil)}, `{"stringData":{"k":"v"}}`)
	hasProblem(t, hub, "secrets", hubv1.SyncPermissionMissing)
	patch(t, &hub.Server, configMap("default", "two", nil), `{"metadata":{"labels":null}}`)
	a.WaitGone(configMap("default", "two", nil))
	a.WaitReady()

	binding.ResourceVersion = ""
	a.Create(binding)
	token := &corev1.Secret{ObjectMeta: meta("default", "token", nil)}
	a.WaitFor(token, func() error { return unless(string(token.Data["k"]) == "v", len(token.Data)) })
	waitRule(t, hub, "secrets", "Ready=True/Following")
}

// usersOf returns who the hub is in a remote.
func usersOf(t *testing.T, r *hubtest.Remote) []rbacv1.Subject {
	t.Helper()
	var all rbacv1.ClusterRoleBindingList
	testkit.Must(t, r.Client().List(t.Context(), &all))
	for _, one := range all.Items {
		if strings.HasPrefix(one.Name, "fleet:") {
			return one.Subjects
		}
	}
	t.Fatal("the hub has no ClusterRoleBinding")
	return nil
}

const labelled = `
edge: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, clusters: {matchLabels: {tier: edge}}, namespaces: {names: [shop]}, to: {naming: Mirror, namespace: default}}
`

// A Cluster that is no longer selected gives up its copies, also if its labels changed while the hub did not run: then nothing that was
// made lately pays for them, and half of them are left. Another start of the hub or an edit makes no other half of these.
func TestEngine_Unselected(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, labelled)
	hub.Create(namespace("shop", nil), configMap("shop", "one", nil), configMap("shop", "two", nil))
	a := hub.Remote("a")
	label := func(tier string) { a.Change(func(c *hubv1.Cluster) { c.Labels = map[string]string{"tier": tier} }) }
	label("edge")
	counts(t, &a.Server, "default", 2)
	label("core")
	counts(t, &a.Server, "default", 0)
	label("edge")
	counts(t, &a.Server, "default", 2)
	hub.Stop()
	patch(t, &hub.Server, &hubv1.Cluster{ObjectMeta: meta("", "a", nil)}, `{"metadata":{"labels":{"tier":"core"}}}`)
	hub.Start()
	held := hasProblem(t, hub, "edge", hubv1.SyncHeld)
	for _, again := range []func(){
		hub.Restart, func() {
			editRule(t, hub, "edge", func(r *hubv1.SyncRule) { r.Spec.DropKeys = []string{"example.com/private"} })
		},
	} {
		counts(t, &a.Server, "default", 1)
		again()
		hub.Eventually(func() error {
			now := hasProblem(t, hub, "edge", hubv1.SyncHeld)
			return unless(now.Time.After(held.Time.Time), now)
		})
		held = hasProblem(t, hub, "edge", hubv1.SyncHeld)
	}
	counts(t, &a.Server, "default", 1)
	testkit.Equal(t, held.Object[:len("1 of 1 copies")], "1 of 1 copies")
}

// Writes that wait for the rate limit of a remote are a problem of the rule.
func TestEngine_Waiting(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, limited, hubtest.Clusters(func(c *hubv1.Cluster) { c.Spec.Client.QPS, c.Spec.Client.Burst = 1, 1 }))
	hub.Remote("a").Create(namespace("shop", nil))
	hub.Create(namespace("shop", nil))
	fillWith(hub, "shop", 60, nil)
	hasProblem(t, hub, "limited", hubv1.SyncWaiting)
}

const taken = `
settings: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, to: {naming: Mirror, namespace: default}}
`

// A hub that was made again elsewhere takes the copies of the earlier one over in place, if its rule names that hub.
func TestEngine_TakeOver(t *testing.T) {
	t.Parallel()
	first := hubOf(t, taken)
	first.Create(namespace("shop", nil), configMap("shop", "one", nil))
	remote := first.Remote("a")
	copied := configMap("default", "one", nil)
	exists(remote, copied)
	system := namespace("kube-system", nil)
	testkit.Must(t, first.Client().Get(t.Context(), client.ObjectKeyFromObject(system), system))
	first.Stop()

	second := hubOf(t, "{}")
	second.Create(namespace("shop", nil), configMap("shop", "one", nil), &corev1.Secret{
		ObjectMeta: meta(hubv1.DefaultNamespace, "b", map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue}),
		Data:       map[string][]byte{"kubeconfig": remote.Kubeconfig()},
	})
	rule := rulesOf(t, taken)[0]
	rule.Spec.TakeOver = []string{string(system.UID)}
	second.Create(rule)
	before := copied.Labels["sync.clusterfx.dev/managed-by"]
	now := configMap("default", "one", nil)
	remote.WaitFor(now, func() error {
		return unless(now.Labels["sync.clusterfx.dev/managed-by"] != before, now.Labels)
	})
	testkit.Equal(t, now.UID, copied.UID, "the copy was made again")
}

const limited = `
limited: {from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, to: {naming: Mirror}}
`

// A Cluster that is limited to namespaces is asked for permissions in each of them, and works.
func TestEngine_Namespaces(t *testing.T) {
	t.Parallel()
	rule := rulesOf(t, limited)
	hub := hubtest.New(t, hubtest.Modules(objectsync.Quick(), objectsync.RulesModule), hubtest.Rules(rbac.RemoteRules(objectsync.Module)...))
	create(hub, rule)
	hub.Create(namespace("shop", nil), configMap("shop", "one", nil))
	a := hub.NewRemote("a")
	a.Create(namespace("shop", nil))
	a.Register(func(c *hubv1.Cluster) { c.Spec.Namespaces = []string{"shop"} })
	hasProblem(t, hub, "limited", hubv1.SyncPermissionMissing)
	a.Create(&rbacv1.Role{ObjectMeta: meta("shop", "sync", nil), Rules: compiled(t, rule[0]).Permissions().Remote},
		&rbacv1.RoleBinding{ObjectMeta: meta("shop", "sync", nil), Subjects: usersOf(t, a), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "sync", APIGroup: rbacv1.GroupName}})
	exists(a, configMap("shop", "one", nil))
}
