// SPDX-License-Identifier: Apache-2.0

package crdtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	certmanagerexample "github.com/clusterfx/clusterfx/examples/vcluster/certmanager"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// pair is a pair between two API servers that serve Certificates and Issuers, with a namespace of the test in each.
type pair struct {
	up, down     client.Client
	upNS, downNS string
}

// start makes a pair with the example, and runs it until the test ends.
func start(t *testing.T) *pair {
	t.Helper()
	clusters := fleettest.Clusters(t, "up", "down")
	p := &pair{up: serve(t, clusters[0]), down: serve(t, clusters[1])}
	p.upNS, p.downNS = fleettest.Namespace(t, p.up, "cm-"), fleettest.Namespace(t, p.down, "cm-")
	cached := client.Options{Cache: &client.CacheOptions{Unstructured: true}}
	manager, err := ctrl.NewManager(clusters[0].Config(), ctrl.Options{
		Client: cached, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	must(t, err)
	other, err := cluster.New(clusters[1].Config())
	must(t, err)
	must(t, manager.Add(other))
	made, err := syncer.NewPair(syncer.PairOptions{
		Name: "pair", Manager: manager, Identity: syncer.Identity{Tenant: p.upNS, TargetNamespace: p.downNS},
		Upstream: syncer.InProcess(manager), Downstream: syncer.InProcess(other),
	})
	must(t, err)
	must(t, syncer.Start(t.Context(), made, certmanagerexample.Items(made.Identity())...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the manager ended: %v", err)
		}
	})
	return p
}

func serve(t *testing.T, c *fleet.Cluster) client.Client {
	t.Helper()
	admin := fleettest.Client(t, c)
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	must(t, err)
	for _, kind := range []string{"certificates", "issuers"} {
		file := filepath.Join(strings.TrimSpace(string(dir)), "deploy", "crds", certmanager.GroupName+"_"+kind+".yaml")
		data, err := os.ReadFile(file) //nolint:gosec // The file belongs to a module that go.mod names.
		must(t, err)
		crd := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(data, &crd.Object))
		must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), crd)))
	}
	for _, kind := range []string{"Certificate", "Issuer"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(object(kind+"List", "", "", nil).GroupVersionKind())
		eventually(t, func() error { return admin.List(t.Context(), list) })
	}
	return admin
}

// object returns an object of cert-manager.
func object(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(certmanager.GroupName + "/v1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func secret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"k": []byte(value)},
	}
}

// has checks the data of a Secret.
func has(s *corev1.Secret, value string) func() error {
	return func() error { return expect(string(s.Data["k"]), value) }
}

// downName returns the name of the copy of an object.
func (p *pair) downName(name string) string { return name + "-x-" + p.upNS + "-x-" + p.upNS }

var must = testkit.Must

func (p *pair) wait(t *testing.T, c client.Client, obj client.Object, check func() error) {
	t.Helper()
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check()
	})
}

// gone waits until an object does not exist.
func (p *pair) gone(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s exists: %w", obj.GetName(), err)
		}
		return nil
	})
}

// unchanged checks that an object is exactly as it was written last by the test.
func unchanged(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	revision, uid := obj.GetResourceVersion(), obj.GetUID()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	if obj.GetResourceVersion() != revision || obj.GetUID() != uid {
		t.Errorf("%s has changed: %v", obj.GetName(), obj)
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

// expect compares two values by how they print.
func expect(got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}
