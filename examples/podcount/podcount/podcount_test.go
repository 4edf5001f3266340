// SPDX-License-Identifier: Apache-2.0

package podcount_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/registry"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		// A metadata watch that stops while it delivers an event blocks forever: one per stopped hub
		// (controller-runtime, newGVKFixupWatcher).
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

// patience is the timeout of waits that should take a second or two.
const patience = 2 * time.Minute

func TestPodcount(t *testing.T) {
	f := fleettest.New(t, fleet.Options{ControllerManager: true}) // garbage-collects the dependents of a Cluster
	hub, edge := newCluster(t, f, "hub"), newCluster(t, f, "edge")
	startHub(t, hub)
	hub.register("edge", edge.Kubeconfig())
	hub.register("gone", []byte(strings.Replace(string(edge.Kubeconfig()), edge.Server(), "https://127.0.0.1:1", 1)))

	// From the remote to the hub.
	hub.expectData("podcount-edge", map[string]string{})
	edge.create(pod("default", "a"))
	b := edge.create(pod("default", "b"))
	edge.create(namespace("shop"))
	edge.create(pod("shop", "web"))
	hub.expectData("podcount-edge", map[string]string{"default": "2", "shop": "1"})
	edge.must(edge.Delete(t.Context(), b, client.GracePeriodSeconds(0)))
	hub.expectData("podcount-edge", map[string]string{"default": "1", "shop": "1"})

	// Unchanged counts are not written.
	writes := hub.appliedConfigMaps()
	edge.must(edge.Patch(t.Context(), pod("default", "a"),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
	edge.create(namespace("empty"))
	edge.create(pod("empty", "not")) // The counter reaches this Pod after the irrelevant changes.
	hub.expectData("podcount-edge", map[string]string{"default": "1", "empty": "1", "shop": "1"})
	if got := hub.appliedConfigMaps() - writes; got != 1 {
		t.Errorf("got %d writes of one change, want 1", got)
	}

	// From the hub to the remote, regardless of the state of other remotes.
	greeting := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"},
		Data:       map[string]string{"text": "hello"},
	}
	hub.create(greeting)
	edge.expectData("greeting", map[string]string{"text": "hello"})
	greeting.Data = map[string]string{"text": "hello again", "from": "the hub"}
	hub.must(hub.Update(t.Context(), greeting))
	edge.expectData("greeting", greeting.Data)

	// A remote that is registered later also receives the greeting: the same cluster, under another name.
	edge.must(edge.Delete(t.Context(), greeting))
	hub.register("late", edge.Kubeconfig())
	edge.expectData("greeting", greeting.Data)

	// The report of a deregistered remote is deleted; other reports stay.
	hub.expectData("podcount-late", map[string]string{"default": "1", "empty": "1", "shop": "1"})
	hub.must(hub.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: hubv1.DefaultNamespace, Name: "late",
	}}))
	hub.must(hub.Delete(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "late"}}))
	hub.expectGone("podcount-late")
	hub.expectData("podcount-edge", map[string]string{"default": "1", "empty": "1", "shop": "1"})
}

func startHub(t *testing.T, hub *cluster) {
	t.Helper()
	o := app.Options{Config: hub.Config(), Modules: []registry.Module{podcount.Module}, Log: testr.New(t)}
	o.Registry.AllowDuplicates = true
	o.Registry.Policy.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	fleettest.InstallCRDs(t, hub.Config())
	hub.create(namespace(hubv1.DefaultNamespace))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("hub ended with an error: %v", err)
		}
	})
}

// cluster is a cluster with an administrator's client.
type cluster struct {
	*fleet.Cluster
	client.Client
	http *http.Client
	t    *testing.T
}

func newCluster(t *testing.T, f *fleet.Fleet, name string) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var err error
	c.Cluster, err = f.Create(t.Context(), name)
	c.must(err)
	c.http, err = rest.HTTPClientFor(c.Config())
	c.must(err)
	t.Cleanup(c.http.CloseIdleConnections)
	kinds := runtime.NewScheme()
	c.must(errors.Join(clientgoscheme.AddToScheme(kinds), hubv1.AddToScheme(kinds)))
	c.Client, err = client.New(c.Config(), client.Options{HTTPClient: c.http, Scheme: kinds})
	c.must(err)
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) create(object client.Object) client.Object {
	c.t.Helper()
	c.must(c.Create(c.t.Context(), object))
	return object
}

// appliedConfigMaps returns the number of apply requests for ConfigMaps that the API server has received.
func (c *cluster) appliedConfigMaps() int {
	c.t.Helper()
	kube, err := clientset.NewForConfigAndClient(c.Config(), c.http)
	c.must(err)
	metrics, err := kube.RESTClient().Get().AbsPath("metrics").DoRaw(c.t.Context())
	c.must(err)
	sum := 0
	for _, line := range applied.FindAllSubmatch(metrics, -1) {
		n, err := strconv.Atoi(string(line[1]))
		c.must(err)
		sum += n
	}
	return sum
}

var applied = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="configmaps".*verb="APPLY".*\} (\d+)$`)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/nothing"}}},
	}
}

func (c *cluster) register(name string, kubeconfig []byte) {
	c.t.Helper()
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hubv1.DefaultNamespace, Name: name,
			Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	})
}

// expectData waits until the ConfigMap has this data.
func (c *cluster) expectData(name string, want map[string]string) {
	c.t.Helper()
	gomega.NewWithT(c.t).Eventually(func() error {
		var found corev1.ConfigMap
		if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &found); err != nil {
			return err
		}
		if !maps.Equal(found.Data, want) {
			return fmt.Errorf("data of %s: got %v, want %v", name, found.Data, want)
		}
		return nil
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

// expectGone waits until the ConfigMap does not exist.
func (c *cluster) expectGone(name string) {
	c.t.Helper()
	gomega.NewWithT(c.t).Eventually(func() bool {
		key := client.ObjectKey{Namespace: "default", Name: name}
		return apierrors.IsNotFound(c.Get(c.t.Context(), key, &corev1.ConfigMap{}))
	}).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.BeTrue())
}
