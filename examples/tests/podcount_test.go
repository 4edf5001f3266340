// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/hubtest"
)

// Pods are counted in each remote and the counts are written to the hub, and a greeting goes the other way.
func TestPodcount(t *testing.T) {
	t.Parallel()
	hub := hubtest.New(t, hubtest.Remotes("edge"), hubtest.Modules(podcount.Module))
	edge, late := hub.Remote("edge"), hub.NewRemote("late")
	late.Refuse()
	late.Register()

	// From the remote to the hub.
	expectData(&hub.Server, "podcount-edge", map[string]string{})
	inNamespace := func(name string) *corev1.Namespace { return &corev1.Namespace{ObjectMeta: meta("", name)} }
	b := pod("default", "b")
	edge.Create(pod("default", "a"), b, inNamespace("shop"), pod("shop", "web"))
	expectData(&hub.Server, "podcount-edge", map[string]string{"default": "2", "shop": "1"})
	edge.Delete(b)
	expectData(&hub.Server, "podcount-edge", map[string]string{"default": "1", "shop": "1"})

	// Unchanged counts are not written.
	writes := appliedConfigMaps(t, hub)
	patch(t, edge.Client(), pod("default", "a"), `{"metadata":{"labels":{"changed":"yes"}}}`)
	edge.Create(inNamespace("empty"), pod("empty", "not")) // The counter reaches this Pod after the irrelevant changes.
	expectData(&hub.Server, "podcount-edge", map[string]string{"default": "1", "empty": "1", "shop": "1"})
	if got := appliedConfigMaps(t, hub) - writes; got != 1 {
		t.Errorf("got %d writes of one change, want 1", got)
	}

	// From the hub to the remote, whatever the state of other remotes.
	late.WaitNotReady(hubv1.ReasonUnreachable)
	greeting := &corev1.ConfigMap{ObjectMeta: meta("default", "greeting"), Data: map[string]string{"text": "hello"}}
	hub.Create(greeting)
	expectData(&edge.Server, "greeting", greeting.Data)
	greeting.Data = map[string]string{"text": "hello again", "from": "the hub"}
	must(t, hub.Client().Update(t.Context(), greeting))
	expectData(&edge.Server, "greeting", greeting.Data)
	late.Repair()
	expectData(&late.Server, "greeting", greeting.Data)

	// The garbage collector of a hub's cluster deletes the report with its owner.
	report := &corev1.ConfigMap{ObjectMeta: meta("default", "podcount-late")}
	uid := late.Cluster().UID
	hub.WaitFor(report, func() error {
		if len(report.OwnerReferences) != 1 {
			return fmt.Errorf("the owners are %v", report.OwnerReferences)
		}
		return expect(report.OwnerReferences[0].UID, uid)
	})
}

// appliedConfigMaps returns the number of apply requests for ConfigMaps that the hub's API server has received.
func appliedConfigMaps(t *testing.T, hub *hubtest.Hub) int {
	t.Helper()
	connection, err := rest.HTTPClientFor(hub.Config())
	must(t, err)
	defer connection.CloseIdleConnections()
	kube, err := clientset.NewForConfigAndClient(hub.Config(), connection)
	must(t, err)
	metrics, err := kube.RESTClient().Get().AbsPath("metrics").DoRaw(t.Context())
	must(t, err)
	sum := 0
	for _, line := range applied.FindAllSubmatch(metrics, -1) {
		n, err := strconv.Atoi(string(line[1]))
		must(t, err)
		sum += n
	}
	return sum
}

var applied = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="configmaps".*verb="APPLY".*\} (\d+)$`)

// expectData waits until a ConfigMap has this data.
func expectData(at *hubtest.Server, name string, want map[string]string) {
	found := &corev1.ConfigMap{ObjectMeta: meta("default", name)}
	at.WaitFor(found, func() error {
		if !maps.Equal(found.Data, want) {
			return fmt.Errorf("data of %s: got %v, want %v", name, found.Data, want)
		}
		return nil
	})
}
