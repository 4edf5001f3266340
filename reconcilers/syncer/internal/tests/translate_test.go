// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

func identity() translate.Identity {
	return translate.Identity{Tenant: "vc1", TargetNamespace: "host-ns"}
}

func bound(t *testing.T, id translate.Identity, o translate.Options) translate.Translator[*corev1.ConfigMap] {
	t.Helper()
	return bind(t, translate.NewNamespaced[*corev1.ConfigMap](id, o), id)
}

func bind(t *testing.T, tr translate.Translator[*corev1.ConfigMap], id translate.Identity) translate.Translator[*corev1.ConfigMap] {
	t.Helper()
	tr, err := translate.Bind(tr, id, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	testkit.Must(t, err)
	return tr
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "nginx", Namespace: "default", UID: "1", ResourceVersion: "2", Generation: 3, GenerateName: "g",
		Finalizers: []string{"example.com/f"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, CreationTimestamp: metav1.Now(),
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "1", "b": "2"},
	}, Data: map[string]string{"k": "v"}}
}

// copied returns the copy of an object.
func copied(tr translate.Translator[*corev1.ConfigMap], up *corev1.ConfigMap) *corev1.ConfigMap {
	return tr.Metadata(up, tr.ToDownstream(types.NamespacedName{Namespace: up.Namespace, Name: up.Name})[0])
}

// Promise: marks: tenant, name, namespace, kind and UID of the original, and the name of the copy; the prefix is a part of the identity.
func TestMetadata_HasTheMarksAndNothingOfTheAPIServer(t *testing.T) {
	t.Parallel()
	const p = translate.DefaultKeyPrefix + "/"
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "nginx-x-default-x-vc1", Namespace: "host-ns",
		Labels: map[string]string{"app": "web", p + "managed-by": "vc1", p + "namespace": "default"},
		Annotations: map[string]string{
			"a": "1", "b": "2", p + "managed-annotations": "a\nb", p + "managed-labels": "app",
			p + "object-name": "nginx", p + "object-namespace": "default", p + "object-uid": "1",
			p + "object-kind": "/v1, Kind=ConfigMap", p + "object-generation": "3", p + "object-host-name": "nginx-x-default-x-vc1", p + "object-host-namespace": "host-ns",
		},
	}, Data: map[string]string{"k": "v"}}
	testkit.Equal(t, copied(bound(t, identity(), translate.Options{}), configMap()), want)
}

// The marks of a tenant cannot be forged from upstream: they are reserved.
func TestMetadata_KeysThatAreNotCopied(t *testing.T) {
	t.Parallel()
	tr := bound(t, identity(), translate.Options{
		ExcludedAnnotations: []string{"excluded"}, Reserved: func(key string) bool { return strings.HasPrefix(key, "reserved/") },
	})
	keys, up := identity().Keys(), configMap()
	want := copied(tr, up)
	for _, key := range []string{keys.HostName, keys.ObjectUID, keys.ManagedBy, keys.Fields, translate.DefaultKeyPrefix + "/other", "reserved/a"} {
		up.Labels[key], up.Annotations[key] = "forged", "forged"
	}
	up.Annotations["excluded"], up.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "1", "{}"
	testkit.Equal(t, copied(tr, up), want)
}

// The owner owns copies in its own namespace only: Kubernetes deletes objects whose owner is in another namespace.
// Promise: metadata of a new copy: nothing that the API server sets, no owners, no finalizers; an owner of the identity in the target namespace.
func TestMetadata_TheOwnerIsInTheTargetNamespace(t *testing.T) {
	t.Parallel()
	id := identity()
	id.Owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "9"}
	if got := copied(bound(t, id, translate.Options{}), configMap()).OwnerReferences; len(got) != 1 || got[0].Name != "owner" {
		t.Errorf("owners of a copy in the target namespace: %v", got)
	}
	id.TargetNamespace = ""
	mirror := bind(t, translate.NewMirror[*corev1.ConfigMap](id, translate.Options{}), id)
	testkit.Equal(t, len(copied(mirror, configMap()).OwnerReferences), 0, "owners of a copy in another namespace")
	cluster := bind(t, translate.NewCluster[*corev1.ConfigMap](id, translate.Options{}), id)
	testkit.Equal(t, len(copied(cluster, configMap()).OwnerReferences), 0, "owners of a copy without a namespace")
}

// The rules (a) to (d) of the three-way merge.
// Promise: annotations and labels of an old copy: merged three ways: those of others stay, those that the original has lost are removed.
func TestMetadataUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		up, down     func(*corev1.ConfigMap)
		annotations  map[string]string // nil: unchanged
		labels       map[string]string
		wantsChanged bool
	}{
		{name: "nothing"},
		{
			name: "a: a changed value", up: func(o *corev1.ConfigMap) { o.Annotations["a"], o.Labels["app"] = "9", "db" },
			annotations: map[string]string{"a": "9", "b": "2"}, labels: map[string]string{"app": "db"}, wantsChanged: true,
		},
		{
			name: "a: a new key", up: func(o *corev1.ConfigMap) { o.Annotations["c"], o.Labels["l"] = "3", "4" },
			annotations: map[string]string{"a": "1", "b": "2", "c": "3"}, labels: map[string]string{"app": "web", "l": "4"}, wantsChanged: true,
		},
		{
			name: "b: an excluded annotation of the copy stays", up: func(o *corev1.ConfigMap) { o.Annotations["excluded"] = "up" },
			down:        func(o *corev1.ConfigMap) { o.Annotations["excluded"] = "down" },
			annotations: map[string]string{"a": "1", "b": "2", "excluded": "down"},
		},
		{
			name: "c: upstream wins", down: func(o *corev1.ConfigMap) { o.Annotations["a"], o.Labels["app"] = "theirs", "theirs" },
			wantsChanged: true,
		},
		{
			name: "c: a key that upstream loses is dropped", up: func(o *corev1.ConfigMap) { delete(o.Annotations, "a"); delete(o.Labels, "app") },
			annotations: map[string]string{"b": "2"}, labels: map[string]string{}, wantsChanged: true,
		},
		{
			name: "d: keys of the copy stay", down: func(o *corev1.ConfigMap) { o.Annotations["host"], o.Labels["host"] = "1", "2" },
			annotations: map[string]string{"a": "1", "b": "2", "host": "1"}, labels: map[string]string{"app": "web", "host": "2"},
		},
		{
			name: "the marks are restored", down: func(o *corev1.ConfigMap) { delete(o.Annotations, identity().Keys().ObjectUID) },
			wantsChanged: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := bound(t, identity(), translate.Options{ExcludedAnnotations: []string{"excluded"}})
			up := configMap()
			down := copied(tr, up)
			if c.up != nil {
				c.up(up)
			}
			if c.down != nil {
				c.down(down)
			}
			changed, annotations, labels := tr.MetadataUpdate(up, down)
			testkit.Equal(t, changed, c.wantsChanged, "changed")
			if c.annotations == nil {
				c.annotations = map[string]string{"a": "1", "b": "2"}
			}
			if c.labels == nil {
				c.labels = map[string]string{"app": "web"}
			}
			testkit.Equal(t, withoutMarks(annotations), c.annotations)
			testkit.Equal(t, withoutMarks(labels), c.labels)
			down.Annotations, down.Labels = annotations, labels
			if again, _, _ := tr.MetadataUpdate(up, down); again {
				t.Error("a second update changes something")
			}
		})
	}
}

func withoutMarks(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, _ string) bool { return identity().Keys().Has(key) })
	return all
}

// The hash of the applied fields and a controller of the copy survive an update.
func TestMetadataUpdate_KeepsWhatTheTranslatorDoesNotSet(t *testing.T) {
	t.Parallel()
	tr, keys := bound(t, identity(), translate.Options{}), identity().Keys()
	down := copied(tr, configMap())
	down.Annotations[keys.Fields], down.Labels[keys.ControlledBy] = "hash", "somebody"
	changed, annotations, labels := tr.MetadataUpdate(configMap(), down)
	if changed || annotations[keys.Fields] != "hash" || labels[keys.ControlledBy] != "somebody" {
		t.Errorf("changed %v: %v, %v", changed, annotations, labels)
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	keys := identity().Keys()
	set := func(m func(*corev1.ConfigMap) map[string]string, key, value string) func(*corev1.ConfigMap) {
		return func(o *corev1.ConfigMap) {
			m(o)[key] = value
		}
	}
	notes := func(o *corev1.ConfigMap) map[string]string { return o.Annotations }
	labels := func(o *corev1.ConfigMap) map[string]string { return o.Labels }
	for _, c := range []struct {
		name   string
		change func(*corev1.ConfigMap)
		uid    types.UID
		want   translate.Ownership
	}{
		{"the copy", nil, "1", translate.Ours},
		{"the copy of an absent object", nil, "", translate.Ours},
		{"the copy of an earlier object", nil, "2", translate.Stale},
		{"of another tenant", set(labels, keys.ManagedBy, "vc2"), "1", translate.Foreign},
		{"without labels", func(o *corev1.ConfigMap) { o.Labels = nil }, "1", translate.Foreign},
		{"without annotations", func(o *corev1.ConfigMap) { o.Annotations = nil }, "1", translate.Copied},
		{"copied under another name", func(o *corev1.ConfigMap) { o.Name = "other" }, "1", translate.Copied},
		{"copied into another namespace", func(o *corev1.ConfigMap) { o.Namespace = "other" }, "1", translate.Copied},
		{"of another version of the kind", set(notes, keys.ObjectKind, "/v1beta1, Kind=ConfigMap"), "1", translate.Ours},
		{"of a kind of another group", set(notes, keys.ObjectKind, "example.com/v1, Kind=ConfigMap"), "1", translate.Foreign},
		{"of another kind", set(notes, keys.ObjectKind, "/v1, Kind=Secret"), "1", translate.Foreign},
		{"of an object that cannot have this name", set(notes, keys.ObjectName, "other"), "1", translate.Foreign},
		{"of no object", set(notes, keys.ObjectName, ""), "1", translate.Foreign},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := bound(t, identity(), translate.Options{})
			down := copied(tr, configMap())
			if c.change != nil {
				c.change(down)
			}
			testkit.Equal(t, tr.Owner(down, c.uid), c.want)
			up, ours := tr.ToUpstream(down)
			if wantOurs := c.want == translate.Ours || c.want == translate.Stale; ours != wantOurs {
				t.Errorf("is mapped back to %v, %v", up, ours)
			}
		})
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	s := metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}},
	}
	testkit.Equal(t, translate.Selector(bound(t, identity(), translate.Options{}), s), s)
	id := identity()
	id.KeyPrefix = "vcluster.loft.sh"
	const key = "vcluster.loft.sh/label-vc1-x-a172cedcae" // the vector of vcluster
	want := metav1.LabelSelector{
		MatchLabels:      map[string]string{key: "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}},
	}
	testkit.Equal(t, translate.Selector(bound(t, id, translate.Options{HashLabels: true}), s), want)
	if s.MatchLabels["app"] != "web" || s.MatchExpressions[0].Key != "app" {
		t.Errorf("the selector of the caller is changed: %v", s)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, id := range []translate.Identity{
		{},
		{Tenant: "A"},
		{Tenant: "a.b"},
		{Tenant: "a", TargetNamespace: "B"},
		{Tenant: "a", KeyPrefix: "a/b"},
		{Tenant: "a", NamePrefix: "-"},
		{Tenant: strings.Repeat("a", 64)},
	} {
		testkit.ErrorIs(t, testkit.Err(id.WithDefaults()), translate.ErrInvalidIdentity, id)
	}
	full, err := translate.Identity{Tenant: "a"}.WithDefaults()
	if err != nil || full.KeyPrefix != translate.DefaultKeyPrefix || full.NamePrefix != translate.DefaultNamePrefix {
		t.Errorf("the defaults are %+v, %v", full, err)
	}
}

func TestBind_RefusesAnotherIdentity(t *testing.T) {
	t.Parallel()
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	other := translate.Identity{Tenant: "vc2", TargetNamespace: "host-ns"}
	for name, err := range map[string]error{
		"tenant": second(translate.Bind(translate.NewNamespaced[*corev1.ConfigMap](other, translate.Options{}), identity(), kind)),
		"no namespace": second(translate.Bind(
			translate.NewNamespaced[*corev1.ConfigMap](translate.Identity{Tenant: "vc1"}, translate.Options{}), translate.Identity{Tenant: "vc1"}, kind)),
		"invalid": second(translate.Bind(translate.NewMirror[*corev1.ConfigMap](translate.Identity{}, translate.Options{}), translate.Identity{}, kind)),
	} {
		testkit.ErrorIs(t, err, translate.ErrInvalidIdentity, name)
	}
}

// A translator that an author keeps is the one of its pair; one that no pair has yet says so, and another kind is refused.
func TestBind_InPlace(t *testing.T) {
	t.Parallel()
	id, kind := identity(), corev1.SchemeGroupVersion.WithKind("ConfigMap")
	kept := translate.NewNamespaced[*corev1.ConfigMap](id, translate.Options{})
	func() {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "before a pair has it") {
				t.Errorf("recovered %q", text)
			}
		}()
		kept.Owner(&corev1.ConfigMap{}, "1")
	}()
	bound := bind(t, kept, id)
	up := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1"}}
	down := bound.Metadata(up, bound.ToDownstream(client.ObjectKeyFromObject(up))[0])
	testkit.Equal(t, kept.Owner(down, "1"), translate.Ours, "owner for the kept translator")
	testkit.NoError(t, second(translate.Bind(kept, id, kind)))
	if err := second(translate.Bind(kept, id, corev1.SchemeGroupVersion.WithKind("Secret"))); !errors.Is(err, translate.ErrInvalidIdentity) {
		t.Errorf("got %v for another kind", err)
	}
}

// The keys of one cluster and of deployment tools stay there; all others are copied.
func TestMetadata_Keys(t *testing.T) {
	t.Parallel()
	stays := []string{
		"pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node", "volume.beta.kubernetes.io/storage-provisioner",
		"deployment.kubernetes.io/revision", "batch.kubernetes.io/job-tracking", "endpointslice.kubernetes.io/managed-by",
		"control-plane.alpha.kubernetes.io/leader", "autoscaling.alpha.kubernetes.io/conditions", "kubernetes.io/service-account.uid",
		"clusterfx.dev/cluster", "x.clusterfx.dev/y", "argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance",
		"kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "meta.helm.sh/release-name", "objectset.rio.cattle.io/id",
		"kapp.k14s.io/app", "applyset.kubernetes.io/part-of", "configsync.gke.io/managed", "configmanagement.gke.io/managed", "olm.owner",
		"olm.owner.kind", "kubectl.kubernetes.io/last-applied-configuration",
	}
	copied := []string{
		"app.kubernetes.io/name", "app.kubernetes.io/instance", "nginx.ingress.kubernetes.io/rewrite-target", "argocd.argoproj.io/sync-wave",
		"service.beta.kubernetes.io/aws-load-balancer-type", "kubectl.kubernetes.io/restartedAt", "kubernetes.io/metadata.name", "app", "deployment",
	}
	up := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, key := range append(slices.Clone(stays), copied...) {
		up.Labels[key], up.Annotations[key] = "v", "v"
	}
	id := identity()
	down := bind(t, translate.NewNamespaced[*corev1.ConfigMap](id, translate.Options{}), id).Metadata(up, types.NamespacedName{Namespace: "t", Name: "b"})
	for i, key := range append(slices.Clone(stays), copied...) {
		want := i >= len(stays)
		if _, label := down.Labels[key]; label != want {
			t.Errorf("the label %s is copied: %t", key, label)
		}
		if _, annotation := down.Annotations[key]; annotation != want {
			t.Errorf("the annotation %s is copied: %t", key, annotation)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Promise: translators: namespaced, cluster-scoped and mirror; the name in both directions; metadata of a new copy and of an old one.
func TestToDownstream(t *testing.T) {
	t.Parallel()
	id := identity()
	key, o := types.NamespacedName{Namespace: "default", Name: "pv1"}, translate.Options{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	for name, c := range map[string]struct {
		translator translate.Translator[*corev1.ConfigMap]
		key        types.NamespacedName
		want       string
	}{
		"namespaced": {translate.NewNamespaced[*corev1.ConfigMap](id, o), key, "host-ns/pv1-x-default-x-vc1"},
		"cluster":    {translate.NewCluster[*corev1.ConfigMap](id, o), types.NamespacedName{Name: "pv1"}, "/vcluster-pv1-x-host-ns-x-vc1"},
		"mirror":     {translate.NewMirror[*corev1.ConfigMap](id, o), key, "host-ns/pv1"},
		"mirror of all namespaces": {
			translate.NewMirror[*corev1.ConfigMap](translate.Identity{Tenant: "vc1"}, o), key, "default/pv1",
		},
	} {
		testkit.Equal(t, c.translator.ToDownstream(c.key)[0].String(), c.want, name)
	}
	job := func(tr translate.Translator[*corev1.ConfigMap]) translate.Translator[*corev1.ConfigMap] {
		tr, err := translate.Bind(tr, id, batchv1.SchemeGroupVersion.WithKind("CronJob"))
		testkit.Must(t, err)
		return tr
	}
	for _, up := range []string{"a", strings.Repeat("a", 30), strings.Repeat("a", 52), strings.Repeat("a", 253)} {
		all := job(translate.NewNamespaced[*corev1.ConfigMap](id, translate.Options{})).ToDownstream(types.NamespacedName{Namespace: "default", Name: up})
		for _, name := range all {
			if len(name.Name) > 52 {
				t.Errorf("the CronJob %s gets %s, of %d characters", up, name.Name, len(name.Name))
			}
		}
		if short := len(up)+len("-x-default-x-vc1") <= 52; (len(all) == 2) != short {
			t.Errorf("the CronJob %s gets %v", up, all)
		}
	}
	if got := job(translate.NewMirror[*corev1.ConfigMap](id, translate.Options{})).ToDownstream(key); len(got) != 1 || got[0].Name != key.Name {
		t.Errorf("the mirror of a CronJob gets %v", got)
	}
	if got := translate.ManagedBy(translate.NewCluster[*corev1.ConfigMap](id, translate.Options{})); got != "host-ns-x-vc1" {
		t.Errorf("objects without a namespace are managed by %s", got)
	}
	testkit.Equal(t, fmt.Sprint(translate.Copied, translate.Foreign, translate.Ours, translate.Stale), "Copied Foreign Ours Stale")
}
