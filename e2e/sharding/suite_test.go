// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if text := os.Getenv(variable); text != "" {
		if err := runReplica(context.Background(), text); err != nil { //nolint:forbidigo // This process is a hub and no test.
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // This process is a hub and no test.
		}
		return
	}
	fleettest.AtOnce(1) // Each test has up to seven hubs.
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// patience is how long a test waits for a state. It is reached only if the test fails.
const patience = 5 * time.Minute

var must, eventually = testkit.Must, testkit.Eventually

func logTo(w io.Writer, replica string) logr.Logger {
	return zap.New(zap.WriteTo(w)).WithValues("by", replica)
}

// stage is a hub's cluster with Clusters, the API servers of their remotes, and replicas of a hub.
type stage struct {
	t        testing.TB
	dir      string
	logs     *os.File // of all replicas
	hub      *fleet.Cluster
	remotes  []*fleet.Cluster
	audits   []*fleet.AuditReader // of the remotes
	written  []write              // what audits have read
	admin    client.WithWatch
	names    []string // of the Clusters
	replicas map[string]*replica
	proxies  map[string]*fault.Proxy // between a replica and the hub's API server
	frozen   map[string]int          // how often a replica was frozen
	added    int                     // replicas
	active   int                     // how many replicas may run Clusters; 0 for all
	reads    bool                    // the module of the replicas reads, and does not write
	unique   bool                    // two remotes that are one cluster are duplicates; otherwise many are addresses of one API server
}

type stageOptions struct {
	clusters int
	servers  int  // API servers of remotes
	audit    bool // the API servers write audit logs
}

// newStage makes a stage with that many Clusters, and without replicas.
func newStage(t *testing.T, clusters int) *stage {
	t.Helper()
	return newStageOf(t, stageOptions{clusters: clusters, servers: 1, audit: true})
}

func newStageOf(t testing.TB, o stageOptions) *stage {
	t.Helper()
	s := &stage{
		t: t, dir: t.TempDir(), replicas: map[string]*replica{}, proxies: map[string]*fault.Proxy{}, frozen: map[string]int{},
	}
	var err error
	s.logs, err = os.Create(filepath.Join(s.dir, "replicas.log"))
	must(t, err)
	t.Cleanup(s.printLogs)
	var addresses []netip.Addr
	for i := range o.clusters {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 3, byte(i / 250), byte(1 + i%250)}))
	}
	f := fleettest.New(t, fleet.Options{Audit: o.audit, Addresses: addresses})
	s.hub, err = f.Create(t.Context(), "hub")
	must(t, err)
	s.admin = fleettest.Client(t, s.hub, hubv1.AddToScheme)
	fleettest.InstallCRDs(t, s.hub.Config())
	must(t, s.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
	for i := range o.servers {
		one, err := f.Create(t.Context(), fmt.Sprintf("remote-%d", i))
		must(t, err)
		s.remotes = append(s.remotes, one)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i, address := range addresses {
		name := fmt.Sprintf("c%02d", i)
		s.names = append(s.names, name)
		text, err := fleet.At(s.remotes[i%o.servers].Kubeconfig(), address)
		must(t, err)
		group.Go(func() error { return s.register(name, text) })
	}
	must(t, group.Wait())
	return s
}

// register creates a Secret and a Cluster.
func (s *stage) register(name string, kubeconfig []byte) error {
	err := s.admin.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	})
	if err != nil {
		return err
	}
	return s.admin.Create(s.t.Context(), &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
	})
}

func (s *stage) kubeconfigOf(replica string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, replica+".kubeconfig")
	if s.proxies[replica] != nil {
		return path
	}
	proxy, text := fleettest.ProxyTo(s.t, s.hub)
	s.proxies[replica] = proxy
	must(s.t, os.WriteFile(path, text, 0o600))
	return path
}

func (s *stage) printLogs() {
	text, err := os.ReadFile(s.logs.Name())
	_ = s.logs.Close()
	if err != nil || !s.t.Failed() {
		return
	}
	lines := strings.Split(string(text), "\n")
	s.t.Log(strings.Join(lines[max(0, len(lines)-300):], "\n"))
}

// expectReady waits until all Clusters are Ready.
func (s *stage) expectReady() time.Duration {
	s.t.Helper()
	return eventually(s.t, func() error {
		var all hubv1.ClusterList
		if err := s.admin.List(s.t.Context(), &all); err != nil {
			return err
		}
		for i := range all.Items {
			one := &all.Items[i]
			if !meta.IsStatusConditionTrue(one.Status.Conditions, hubv1.ConditionReady) {
				return fmt.Errorf("%s is not Ready: %+v", one.Name, one.Status.Conditions)
			}
		}
		return nil
	})
}

// remove deletes a Cluster as "hub deregister" does: the tests remove more than the limit of removals.
func (s *stage) remove(name string) {
	s.t.Helper()
	one := s.cluster(name)
	before := one.DeepCopy()
	metav1.SetMetaDataAnnotation(&one.ObjectMeta, hubv1.AnnotationDeregister, string(one.UID))
	must(s.t, s.admin.Patch(s.t.Context(), one, client.MergeFrom(before)))
	must(s.t, s.admin.Delete(s.t.Context(), one))
}

func (s *stage) cluster(name string) *hubv1.Cluster {
	s.t.Helper()
	found := &hubv1.Cluster{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, found))
	return found
}

// exists reports whether there is a Cluster.
func (s *stage) exists(name string) bool {
	s.t.Helper()
	err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, &hubv1.Cluster{})
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}
