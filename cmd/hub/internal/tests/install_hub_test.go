// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/modules"
)

// podsConfig returns the connection of the hub's Pods, with a token of their ServiceAccount.
func podsConfig(t *testing.T, c client.Client, admin *rest.Config) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: hubv1.DefaultNamespace,
		Name:      deployment(t, objects(t, install.Options{})).Spec.Template.Spec.ServiceAccountName,
	}}
	lifetime := int64(time.Hour / time.Second)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	if err := c.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	return config
}

// startHub runs a hub. It is stopped when the test ends, or when stop is called.
func startHub(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	o := app.Options{Config: config, Modules: modules.All(), Log: testr.New(t)}
	o.Election.Enabled = true
	o.Registry.Metrics = ctrlmetrics.Registry
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	clientmetrics.Limit()(config) // as main does
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the hub ends with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// register creates a labelled Secret, which the hub registers. The Secret and its Cluster are removed when the test ends.
func register(t *testing.T, c client.Client, name string, kubeconfig []byte) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: hubv1.DefaultNamespace,
			Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	must(t, c.Create(t.Context(), secret))
	removeLater(t, c, name)
}

// removeLater removes the Secret and the Cluster of this name when the test ends, whether or not a hub runs.
func removeLater(t *testing.T, c client.Client, name string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace}}
		release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		must(t, client.IgnoreNotFound(c.Delete(ctx, secret)))
		must(t, client.IgnoreNotFound(c.Delete(ctx, cluster)))
		must(t, client.IgnoreNotFound(c.Patch(ctx, cluster, release)))
	})
}

// awaitWork waits until the hub has registered the remote and its module has counted Nodes.
func awaitWork(t *testing.T, c client.Client, name string) {
	t.Helper()
	eventually(t, func() error {
		var found hubv1.Cluster
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &found); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(found.Status.Conditions, hubv1.ConditionReady) || found.Status.Inventory.Nodes == nil {
			return fmt.Errorf("%s is %+v", name, found.Status)
		}
		return nil
	})
}

// A hub with the account and the permissions of the manifests, and no others, is elected, registers a remote from a
// Secret, runs the modules, records events, and deregisters. The metrics that it exports are the metrics of
// docs/metrics.md.
func TestManifests_HubWorks(t *testing.T) {
	admin, config := installed(t)
	remote := fleettest.Cluster(t, "remote")
	startHub(t, podsConfig(t, admin, config))
	register(t, admin, "works", remote.Kubeconfig())
	awaitWork(t, admin, "works")
	eventually(t, func() error {
		var events eventsv1.EventList
		if err := admin.List(t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.Kind == "Cluster" && e.Regarding.Name == "works" {
				return nil
			}
		}
		return fmt.Errorf("%d events, want an event about the Cluster", len(events.Items))
	})
	checkMetrics(t)
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "works"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "works", Namespace: hubv1.DefaultNamespace}}
	if err := errors.Join(admin.Delete(t.Context(), secret), admin.Delete(t.Context(), cluster)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Name: "works"}, cluster)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the Cluster is still there"), err)
	})
}
