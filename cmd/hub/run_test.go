// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A hub that cannot start logs the reason, with advice, in the format of its log. Wrong variables of traces are not the reason:
// the hub logs them without the value, which may be secret, and runs.
func TestRun_RefusesToStart(t *testing.T) {
	t.Parallel()
	edge := fleettest.Cluster(t, "bare") // It has no CRD.
	kubeconfig := write(t, edge)
	p := startWith(t, []string{asHub + "=" + asStock, "OTEL_EXPORTER_OTLP_ENDPOINT=:sesame@collector"},
		"run", "--kubeconfig="+kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0")
	p.expectExit(1)
	expectJSON(t, p, "There are no traces", "The hub ended")
	p.expect(&p.stderr, "Starting the hub")
	p.expect(&p.stderr, "There are no traces")
	p.expect(&p.stderr, "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL")
	p.expectNot(&p.stderr, "sesame")
	p.expect(&p.stderr, "kubectl apply --server-side -k https://github.com/clusterfx/clusterfx/config/crd")
}

// expectJSON fails the test unless every line that the process logs is a JSON object, and the first and the last line
// have these messages.
func expectJSON(t *testing.T, p *program, first, last string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	for i, line := range lines {
		var one struct{ Level, TS, Msg string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Level == "" || one.TS == "" || one.Msg == "" {
			t.Fatalf("%v in line %d: %s", err, i+1, line)
		}
		if i == 0 && one.Msg != first || i == len(lines)-1 && one.Msg != last {
			t.Errorf("line %d of %d is %s", i+1, len(lines), line)
		}
	}
	if p.stdout.String() != "" {
		t.Errorf("the hub prints %q on stdout, want nothing", p.stdout.String())
	}
}

// expectNodes waits until every Cluster is Ready and has counted this number of Nodes.
func expectNodes(t *testing.T, hub *fleet.Cluster, names []string, nodes int32) {
	t.Helper()
	c := clientFor(t, hub)
	eventually(t, func() error {
		for _, name := range names {
			var cluster hubv1.Cluster
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &cluster); err != nil {
				return err
			}
			got := cluster.Status.Inventory.Nodes
			if cluster.Generation != 1 || got == nil || *got != nodes || cluster.Status.Conditions[0].Reason != hubv1.ReasonReady {
				return fmt.Errorf("%s is %+v", name, cluster.Status)
			}
		}
		return nil
	})
}

// createAll creates clusters in parallel, which takes much less time than one after the other.
func createAll(t *testing.T, f *fleet.Fleet, names ...string) []*fleet.Cluster {
	t.Helper()
	clusters, creating := make([]*fleet.Cluster, len(names)), errgroup.Group{}
	for i, name := range names {
		creating.Go(func() (err error) {
			clusters[i], err = f.Create(t.Context(), name)
			return err
		})
	}
	must(t, creating.Wait())
	return clusters
}

// install creates the CRD and the credentials namespace in a cluster, and returns the path of a kubeconfig.
func install(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	fleettest.InstallCRDs(t, c.Config())
	direct := clientFor(t, c)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}
	must(t, client.IgnoreAlreadyExists(direct.Create(t.Context(), ns)))
	// On a busy API server it takes a while until discovery has the CRD.
	eventually(t, func() error { return direct.List(t.Context(), &hubv1.ClusterList{}) })
	return write(t, c)
}

func write(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	return testkit.File(t, "kubeconfig", c.Kubeconfig())
}

func registration(name string, remote *fleet.Cluster) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: hubv1.DefaultNamespace,
			Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		},
		Data: map[string][]byte{"kubeconfig": remote.Kubeconfig()},
	}
}

func clientFor(t *testing.T, c *fleet.Cluster) client.Client {
	t.Helper()
	return fleettest.Client(t, c, hubv1.AddToScheme)
}

var must, eventually = testkit.Must, testkit.Eventually
