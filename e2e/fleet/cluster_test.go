// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestCluster_Lifecycle(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := fleettest.Cluster(t, "lifecycle")
	client := clientFor(t, c.Config())
	write(t, client, "kept")

	g.Expect(c.Pause()).To(Succeed())
	g.Expect(read(ctx, client, "kept")).NotTo(Succeed())
	g.Expect(c.Resume()).To(Succeed())
	g.Expect(read(ctx, client, "kept")).To(Succeed())

	g.Expect(c.Kill()).To(Succeed())
	g.Expect(c.Kill()).To(Succeed(), "killing a dead cluster")
	g.Expect(read(ctx, client, "kept")).To(MatchError(ContainSubstring("connection refused")))
	g.Expect(c.Restart(ctx)).To(Succeed())
	g.Expect(read(ctx, client, "kept")).To(Succeed())

	g.Expect(c.Stop(ctx)).To(Succeed())
	g.Expect(c.Stop(ctx)).To(Succeed(), "stopping a dead cluster")
	g.Expect(read(ctx, client, "kept")).NotTo(Succeed())
	g.Expect(c.Restart(ctx)).To(Succeed())
	g.Expect(read(ctx, client, "kept")).To(Succeed())
}

func TestCreate_flags(t *testing.T) {
	fleettest.Slow(t, "nothing: flags need an API server of their own")
	t.Parallel()
	g := NewWithT(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	g.Expect(os.WriteFile(policy, []byte(text), 0o600)).To(Succeed())
	addr, other := netip.MustParseAddr("127.0.3.7"), netip.MustParseAddr("127.0.3.8")
	f := fleettest.New(t, fleet.Options{
		Addresses:      []netip.Addr{addr},
		APIServerFlags: []string{"--audit-policy-file=" + policy},
	})
	c, err := f.Create(t.Context(), "flags", "--audit-log-path=audit.log")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filepath.Join(c.Dir(), "audit.log")).To(BeARegularFile())
	if runtime.GOOS != "linux" {
		t.Skip("only Linux accepts all addresses of 127.0.0.0/8")
	}
	g.Expect(listAt(t, c, addr)).To(Succeed())
	g.Expect(listAt(t, c, other)).To(MatchError(ContainSubstring("x509")))
}

func listAt(t *testing.T, c *fleet.Cluster, addr netip.Addr) error {
	t.Helper()
	elsewhere, err := fleet.At(c.Kubeconfig(), addr)
	testkit.Must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(elsewhere)
	testkit.Must(t, err)
	return list(t.Context(), clientFor(t, config))
}

func TestCluster_ControllerManager(t *testing.T) {
	fleettest.Slow(t, "nothing: clusters of the pool have no controller manager")
	t.Parallel()
	g := NewWithT(t)
	f := fleettest.New(t, fleet.Options{ControllerManager: true})
	c, err := f.Create(t.Context(), "managed")
	g.Expect(err).NotTo(HaveOccurred())
	client := clientFor(t, c.Config())
	g.Expect(readAccount(t, client)).To(Succeed())
	g.Expect(c.Kill()).To(Succeed())
	for name, pid := range f.Processes() {
		g.Expect(alive(pid)).To(Equal(name == "etcd"), name)
	}
}
