// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const configs = `
configs:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [default]}
  objects: {selector: {matchLabels: {sync: "yes"}}}
  to: {naming: Mirror}
`

// deleting is configs, whose copies end with it.
const deleting = configs + "  deletionPolicy: Delete\n"

func original(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta("default", name, map[string]string{"sync": "yes"}), Data: map[string]string{"k": "v"}}
}

// waitRule waits until the conditions of a rule are as wanted, as "Ready=True/Following", and returns it.
func waitRule(t *testing.T, hub *hubtest.Hub, name string, conditions ...string) *hubv1.SyncRule {
	t.Helper()
	r := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	hub.WaitFor(r, func() error {
		for _, want := range conditions {
			kind, rest, _ := strings.Cut(want, "=")
			c := apimeta.FindStatusCondition(r.Status.Conditions, kind)
			if c == nil || string(c.Status)+"/"+c.Reason != rest || c.ObservedGeneration != r.Generation {
				return fmt.Errorf("want %s in generation %d, the status is %+v", want, r.Generation, r.Status)
			}
		}
		return nil
	})
	return r
}

func waitCopy(t *testing.T, remote *hubtest.Remote, name string) *corev1.ConfigMap {
	t.Helper()
	found := original(name)
	remote.WaitFor(found, func() error {
		if found.Labels[managedBy] == "" {
			return errors.New("it is not a copy")
		}
		return nil
	})
	return found
}

const managedBy = "sync.clusterfx.dev/managed-by"

// A rule is Ready when all Clusters have followed it; its status has their number, and that of the copies.
func TestRuleStatus(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, configs)
	hub.Create(original("one"))
	waitCopy(t, hub.Remote("a"), "one")
	r := waitRule(t, hub, "configs", "Ready=True/Following", "Valid=True/Valid", "Complete=True/Following")
	testkit.Equal(t, r.Status.Summary, "1/1")
	hub.WaitFor(r, func() error {
		if r.Status.Copies == nil || *r.Status.Copies != 1 || len(r.Status.Replicas) != 1 || *r.Status.Replicas[0].Originals != 1 {
			return fmt.Errorf("the status is %+v", r.Status)
		}
		return nil
	})
	editRule(t, hub, "configs", func(r *hubv1.SyncRule) {
		r.Spec.Clusters = &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"tier": "edge"}}
	})
	waitRule(t, hub, "configs", "Ready=True/NoClusters")
}

// A rule that contradicts itself is Stalled, and the message says why; its copies stay.
func TestRuleStatus_Invalid(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, configs)
	hub.Create(original("one"))
	waitCopy(t, hub.Remote("a"), "one")
	editRule(t, hub, "configs", func(r *hubv1.SyncRule) { r.Spec.Status = hubv1.SyncReturnStatus })
	r := waitRule(t, hub, "configs", "Ready=False/Invalid", "Valid=False/Invalid", "Stalled=True/Invalid")
	if c := apimeta.FindStatusCondition(r.Status.Conditions, hubv1.ConditionValid); !strings.Contains(c.Message, "use namespaces.template") {
		t.Errorf("the message is %q", c.Message)
	}
	waitCopy(t, hub.Remote("a"), "one")
	editRule(t, hub, "configs", func(r *hubv1.SyncRule) { r.Spec.Status = hubv1.SyncIgnore })
	waitRule(t, hub, "configs", "Ready=True/Following", "Valid=True/Valid")
}

// A remote that does not respond does not keep a rule from being Ready, but from being Complete.
func TestRuleStatus_Unreachable(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, configs)
	waitRule(t, hub, "configs", "Ready=True/Following")
	hub.Remote("a").Refuse()
	hub.Remote("a").WaitNotReady(hubv1.ReasonUnreachable)
	editRule(t, hub, "configs", func(r *hubv1.SyncRule) { r.Spec.Objects.Names = []string{"one"} })
	r := waitRule(t, hub, "configs", "Ready=True/Following", "Complete=False/Unreachable")
	if c := apimeta.FindStatusCondition(r.Status.Conditions, hubv1.ConditionComplete); !strings.HasSuffix(c.Message, ": a") {
		t.Errorf("the message does not name the Cluster: %q", c.Message)
	}
}

// A deleted rule with deletionPolicy Keep leaves its copies, which are no copies any more; a rule of another name that gives their
// originals the same address takes them back, whatever adopt says.
func TestEnd_Keep(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, configs)
	hub.Create(original("one"))
	before := waitCopy(t, hub.Remote("a"), "one")
	waitRule(t, hub, "configs", "Ready=True/Following")
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	kept := original("one")
	hub.Remote("a").WaitFor(kept, func() error {
		if kept.Labels[managedBy] != "" || !strings.HasPrefix(kept.Annotations[hubv1.AnnotationKeptBy], "configs.") {
			return fmt.Errorf("labels %v, annotations %v", kept.Labels, kept.Annotations)
		}
		return nil
	})
	create(hub, rulesOf(t, strings.Replace(configs, "configs:", "renamed:", 1)))
	after := waitCopy(t, hub.Remote("a"), "one")
	testkit.Equal(t, after.UID, before.UID, "the object")
}

// The copies of a deleted rule with deletionPolicy Delete are deleted, however many they are, and nothing is held.
func TestEnd_Delete(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, deleting)
	const objects = 30 // more than may be deleted without evidence
	for i := range objects {
		hub.Create(original(fmt.Sprint("one-", i)))
	}
	for i := range objects {
		waitCopy(t, hub.Remote("a"), fmt.Sprint("one-", i))
	}
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	for i := range objects {
		hub.Remote("a").WaitGone(original(fmt.Sprint("one-", i)))
	}
	testkit.NoError(t, hub.Client().Get(t.Context(), client.ObjectKeyFromObject(original("one-0")), original("one-0")), "the original")
}

// A remote that is away keeps no rule from its end; what the rule has left there ends when the remote returns, and the Cluster says
// so until then.
func TestEnd_Away(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, deleting)
	hub.Create(original("one"))
	a := hub.Remote("a")
	waitCopy(t, a, "one")
	waitRule(t, hub, "configs", "Ready=True/Following")
	a.Refuse()
	a.WaitNotReady(hubv1.ReasonUnreachable)
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	remains := a.Cluster().Status.Remains
	if len(remains) != 1 || remains[0].Rule != "configs" || remains[0].Policy != hubv1.SyncDelete {
		t.Fatalf("remains are %+v", remains)
	}
	a.Repair()
	a.WaitGone(original("one"))
	hub.Eventually(func() error {
		if left := a.Cluster().Status.Remains; len(left) > 0 {
			return fmt.Errorf("remains are %+v", left)
		}
		return nil
	})
}

// The copies of a remote that is away are in the hub: a rule that is deleted ends there without it, and nothing remains.
func TestEnd_AwayFromRemote(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, `
reports: {from: Remote, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [shop]}, to: {naming: Mirror, namespace: inbox}, deletionPolicy: Delete}
`)
	a := hub.Remote("a")
	hub.Create(namespace("inbox", nil))
	a.Create(namespace("shop", nil), configMap("shop", "one", nil))
	counts(t, &hub.Server, "inbox", 1)
	a.Refuse()
	a.WaitNotReady(hubv1.ReasonUnreachable)
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "reports"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	counts(t, &hub.Server, "inbox", 0)
	testkit.Equal(t, len(a.Cluster().Status.Remains), 0, "remains")
}

// A rule that comes and goes while a remote is away does nothing there when it returns, and waits for nothing.
func TestEnd_WhileAway(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, "{}", remoteRules(t, rulesOf(t, deleting)...))
	hub.Create(original("one"))
	a := hub.Remote("a")
	a.Refuse()
	a.WaitNotReady(hubv1.ReasonUnreachable)
	create(hub, rulesOf(t, deleting))
	waitRule(t, hub, "configs", "Ready=True/Following", "Complete=False/Unreachable")
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	a.Repair()
	hub.Eventually(func() error {
		if left := a.Cluster().Status.Remains; len(left) > 0 {
			return fmt.Errorf("remains are %+v", left)
		}
		return nil
	})
	create(hub, rulesOf(t, strings.NewReplacer("configs:", "others:", "sync:", "other:").Replace(deleting)))
	hub.Create(configMap("default", "two", map[string]string{"other": "yes"}))
	waitCopy(t, a, "two")
	if err := a.Client().Get(t.Context(), client.ObjectKeyFromObject(original("one")), original("one")); !apierrors.IsNotFound(err) {
		t.Errorf("the copy of a rule that ended: %v, want not found", err)
	}
}

// createNamespace makes a namespace that is absent, changes none that is there, and the end of the rule deletes neither.
func TestEnd_Namespaces(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, strings.Replace(deleting, "Mirror", "Mirror, namespace: shop, createNamespace: IfAbsent", 1), hubtest.Remotes("b"))
	a, b := hub.Remote("a"), hub.Remote("b")
	theirs := namespace("shop", map[string]string{"team": "shop"})
	a.Create(theirs)
	hub.Create(original("one"))
	exists(a, configMap("shop", "one", nil))
	exists(b, configMap("shop", "one", nil))
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	for _, remote := range []*hubtest.Remote{a, b} {
		counts(t, &remote.Server, "shop", 0)
		found := namespace("shop", nil)
		testkit.Must(t, remote.Client().Get(t.Context(), client.ObjectKeyFromObject(found), found))
		testkit.Equal(t, found.DeletionTimestamp, (*metav1.Time)(nil), "deletion of the namespace")
		if remote == a {
			testkit.Equal(t, found.ResourceVersion, theirs.ResourceVersion, "the version of a namespace that was there")
		}
	}
}

// A rule that is deleted and applied again while a remote is away finds its copies there.
func TestEnd_AppliedAgain(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, deleting)
	hub.Create(original("one"))
	a := hub.Remote("a")
	before := waitCopy(t, a, "one")
	waitRule(t, hub, "configs", "Ready=True/Following")
	a.Refuse()
	a.WaitNotReady(hubv1.ReasonUnreachable)
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	create(hub, rulesOf(t, deleting))
	a.Repair()
	hub.Eventually(func() error {
		if left := a.Cluster().Status.Remains; len(left) > 0 {
			return fmt.Errorf("remains are %+v", left)
		}
		return nil
	})
	waitRule(t, hub, "configs", "Ready=True/Following", "Complete=True/Following")
	testkit.Equal(t, waitCopy(t, a, "one").UID, before.UID, "the object")
}

// The definition of SyncRules is deleted, and all rules with it: no copy is touched, and the rules find them again.
func TestEnd_Definition(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, deleting)
	hub.Create(original("one"))
	before := waitCopy(t, hub.Remote("a"), "one")
	waitRule(t, hub, "configs", "Ready=True/Following")
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "syncrules.clusterfx.dev"}}
	testkit.Must(t, hub.Client().Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	hub.Delete(crd.DeepCopy())
	hub.WaitGone(crd.DeepCopy())
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, Spec: crd.Spec}
	hub.InstallCRDs(again)
	testkit.Equal(t, waitCopy(t, hub.Remote("a"), "one").UID, before.UID, "the object without a rule")
	create(hub, rulesOf(t, deleting))
	waitRule(t, hub, "configs", "Ready=True/Following")
	testkit.Equal(t, waitCopy(t, hub.Remote("a"), "one").UID, before.UID, "the object of the new rule")
}

// The end of a one-to-one rule removes its finalizer from originals that stay.
func TestEnd_Finalizers(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, `
orders:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {template: "tenant-{{cluster}}"}
  to: {naming: Mirror, namespace: default}
`)
	ensureNamespace(t, hub, "tenant-a")
	order := original("one")
	order.Namespace = "tenant-a"
	hub.Create(order)
	waitCopy(t, hub.Remote("a"), "one")
	hub.WaitFor(order, func() error {
		if len(order.Finalizers) == 0 {
			return errors.New("no finalizer")
		}
		return nil
	})
	rule := &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	hub.Delete(rule)
	hub.WaitGone(rule)
	testkit.Must(t, hub.Client().Get(t.Context(), client.ObjectKeyFromObject(order), order))
	testkit.Equal(t, len(order.Finalizers), 0, "finalizers of the original")
}

// What a replica that has ended said of a rule goes.
func TestRuleStatus_Replicas(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, configs)
	r := waitRule(t, hub, "configs", "Ready=True/Following")
	before := r.DeepCopy()
	r.Status.Replicas = append(r.Status.Replicas, hubv1.SyncReplica{Name: "ended", ObservedGeneration: 1, Clusters: new(int32(7))})
	testkit.Must(t, hub.Client().Status().Patch(t.Context(), r, client.MergeFrom(before)))
	hub.WaitFor(r, func() error {
		if len(r.Status.Replicas) != 1 || r.Status.Replicas[0].Name == "ended" {
			return fmt.Errorf("replicas: %+v", r.Status.Replicas)
		}
		return nil
	})
}
