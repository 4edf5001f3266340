// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/clientmetrics"
	"github.com/clusterfx/clusterfx/internal/testkit"
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
	must(t, c.SubResource("token").Create(t.Context(), account, token))
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	return config
}

// A hub with the account of the manifests, and no other permissions than theirs, registers a remote from a Secret, runs the
// modules, and deregisters. The metrics that it exports are the metrics of docs/metrics.md.
func TestManifests_HubWorks(t *testing.T) { //nolint:paralleltest // The metrics are those of the process.
	admin, config := installed(t)
	o := app.Options{Config: podsConfig(t, admin, config), Modules: modules.All(), Log: testkit.Log(t)}
	o.Registry.Replica, o.TunnelAddress = "hub-0", "127.0.0.1:0"
	o.Registry.Metrics = ctrlmetrics.Registry
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	clientmetrics.Limit()(o.Config) // as main does
	testkit.Background(t, func(ctx context.Context) error { return app.Run(ctx, o) })
	meta := metav1.ObjectMeta{Name: "works", Namespace: hubv1.DefaultNamespace, Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue}}
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"kubeconfig": fleettest.Cluster(t, "remote").Kubeconfig()}}
	must(t, admin.Create(t.Context(), secret))
	cluster := &hubv1.Cluster{}
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKey{Name: meta.Name}, cluster); err != nil {
			return err
		}
		if cluster.Status.Inventory.Nodes == nil {
			return fmt.Errorf("no Nodes are counted: %+v", cluster.Status)
		}
		return nil
	})
	checkMetrics(t)
	must(t, errors.Join(admin.Delete(t.Context(), secret), admin.Delete(t.Context(), cluster)))
	eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Name: meta.Name}, cluster)
		if err == nil {
			err = errors.New("the Cluster is still there")
		}
		return client.IgnoreNotFound(err)
	})
}
