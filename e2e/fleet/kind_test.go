// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package fleet_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// TestKind takes minutes and some gigabytes, so it has a build tag: make e2e-kind. The variable KIND_NODE_IMAGE names a
// node image other than the default of kind.
func TestKind(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "docker", "version").CombinedOutput(); err != nil {
		t.Skipf("Docker is not available: %v: %s", err, out)
	}
	g := NewWithT(t)
	ctx := t.Context()
	f := fleettest.New(t, fleet.Options{Provider: fleet.Kind, Image: os.Getenv("KIND_NODE_IMAGE")})
	c, err := f.Create(ctx, "real")
	g.Expect(err).NotTo(HaveOccurred())
	client := clientFor(t, c.Config())
	write(t, client, "kept")

	for name, m := range mints(c) {
		user, err := m(ctx, fleet.User{Name: "reader", Rules: readConfigMaps(), Lifetime: time.Minute})
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(list(ctx, clientFor(t, user.Config()))).To(Succeed(), name)
	}

	g.Expect(c.Pause()).To(Succeed())
	g.Expect(read(ctx, client, "kept")).NotTo(Succeed())
	g.Expect(c.Resume()).To(Succeed())
	g.Eventually(read).WithContext(ctx).WithArguments(client, "kept").WithTimeout(time.Minute).Should(Succeed())

	g.Expect(c.Kill()).To(Succeed())
	g.Expect(c.Kill()).To(Succeed(), "killing a dead cluster")
	g.Expect(read(ctx, client, "kept")).NotTo(Succeed())
	g.Expect(c.Restart(ctx)).To(Succeed())
	g.Expect(read(ctx, client, "kept")).To(Succeed())

	g.Expect(c.Stop(ctx)).To(Succeed())
	g.Expect(c.Restart(ctx)).To(Succeed())
	g.Expect(read(ctx, client, "kept")).To(Succeed())
}
