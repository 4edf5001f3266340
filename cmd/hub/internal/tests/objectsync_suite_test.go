// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/objectsync"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const edge = "edge"

// twoClusters are a hub and a remote with a Cluster, without a running hub.
type twoClusters struct {
	t           *testing.T
	hub, remote *access.Cluster
	diff        objectsync.Diff
}

func newTwoClusters(t *testing.T, r rules.Rule) *twoClusters {
	t.Helper()
	hub, remote := fleettest.Borrow(t, pool.Hub), fleettest.Borrow(t, pool.Remote)
	s := &twoClusters{t: t, hub: reach(t, hub), remote: reach(t, remote)}
	s.create(s.remote, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}})
	for _, name := range []string{"source", "for-edge", "target"} {
		s.create(s.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.create(s.remote, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	s.create(s.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: edge},
		Data:       map[string][]byte{"kubeconfig": remote.Kubeconfig()},
	})
	s.create(s.hub, &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: edge},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: edge, Key: "kubeconfig"}},
	})
	place := enroll.Place{Hub: s.hub, Namespace: hubv1.DefaultNamespace}
	policy := kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	s.diff = objectsync.Diff{Hub: s.hub, HubID: hubID, Rule: r, Reach: func(ctx context.Context, c *hubv1.Cluster) (*access.Cluster, func(), error) {
		return place.Reach(ctx, c, policy)
	}}
	return s
}

func reach(t *testing.T, c *fleet.Cluster) *access.Cluster {
	t.Helper()
	reached, err := access.New(c.Name(), c.Config())
	must(t, err)
	return reached
}

func (s *twoClusters) create(in *access.Cluster, obj client.Object) {
	s.t.Helper()
	must(s.t, in.Create(s.t.Context(), obj))
}

func (s *twoClusters) original(in *access.Cluster, namespace, name string) *corev1.ConfigMap {
	s.t.Helper()
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.create(in, made)
	return made
}

const hubID = "7b1c0f0e-0000-4000-8000-000000000000"

func at(cluster string) rules.Place { return rules.Place{HubID: hubID, Cluster: cluster} }

func copyOf(t *testing.T, r rules.Rule, cluster string, of *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	must(t, err)
	translator, err := translate.Bind(r.Translator(at(cluster)), r.Identity(at(cluster)), r.GVK())
	must(t, err)
	names := translator.ToDownstream(client.ObjectKeyFromObject(of))
	copied := translator.Metadata(&unstructured.Unstructured{Object: fields}, names[0])
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: copied.GetNamespace(), Name: copied.GetName(), Labels: copied.GetLabels(), Annotations: copied.GetAnnotations(),
	}}
}

func (s *twoClusters) versions() map[string]string {
	s.t.Helper()
	var list corev1.ConfigMapList
	must(s.t, s.remote.List(s.t.Context(), &list, client.InNamespace("target")))
	versions := map[string]string{}
	for _, one := range list.Items {
		versions[one.Name] = one.ResourceVersion
	}
	return versions
}

func pull() rules.Rule {
	return rules.Rule{Name: "pull", SyncRuleSpec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"source"}}, To: hubv1.SyncTarget{Naming: hubv1.SyncTranslated, Namespace: "target"},
	}}
}
