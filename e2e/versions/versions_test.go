// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// Promise: hub and remotes may have any version of Kubernetes from 1.30 to 1.37.
func TestVersions(t *testing.T) {
	fleettest.Slow(t, "./e2e/versions TestEmulated")
	var built []string
	for _, version := range fleet.Versions() {
		if fleet.HasVersion(version) {
			built = append(built, version)
		} else {
			t.Logf("%s has not been built: make controlplane KUBERNETES=all", version)
		}
	}
	program := present(t)
	found := results{}
	hubs := slices.Compact([]string{built[0], built[len(built)-1]})
	for _, version := range hubs {
		t.Run("hub "+version, func(t *testing.T) { found[version] = testHub(t, program, version, built) })
	}
	if *writes {
		must(t, found.write(hubs))
	}
	t.Log("\n" + found.table(hubs))
}

// step is something that is tried with all remotes at once.
type step struct {
	name string
	try  func(*remote) error
}

// testHub runs a hub of a version with a remote of each version, and returns the names of the steps that failed, by remote.
func testHub(t *testing.T, program, version string, versions []string) map[string][]string {
	t.Helper()
	f := fleettest.New(t, fleet.Options{})
	cluster, err := f.CreateVersion(t.Context(), "hub", version)
	must(t, err)
	h := newHub(t, cluster, program)
	var remotes []*remote
	var names []string
	for _, version := range versions {
		name := "r" + strings.ReplaceAll(strings.TrimPrefix(version, "v"), ".", "-")
		one, err := f.CreateVersion(t.Context(), name, version)
		must(t, err)
		remotes, names = append(remotes, h.newRemote(one, version)), append(names, name)
	}
	h.originals(names...)
	must(t, h.install())
	h.start("first")
	failed := map[string][]string{}
	try := func(s step) {
		for r, err := range each(t, remotes, s.try) {
			failed[r.version] = append(failed[r.version], s.name)
			t.Errorf("hub %s, remote %s: %s: %v", version, r.version, s.name, err)
		}
	}
	for _, s := range []step{
		{"registration", (*remote).register},
		{"CRD and sync", (*remote).sync},
		{"status", (*remote).status},
		{"sync", (*remote).volumes},
		{"rotation", (*remote).rotate},
		{"hub check", (*remote).check},
	} {
		try(s)
	}
	must(t, h.putTenant(t.Context()))
	try(step{"entity", (*remote).tenant})
	h.strip()
	try(step{"deletion guard", (*remote).guarded})
	h.start("second")
	must(t, h.end("first", syscall.SIGKILL))
	try(step{"fail-over", func(r *remote) error {
		if err := r.order("black"); err != nil {
			return err
		}
		return r.copied("black")
	}})
	return failed
}

// putTenant writes an entity for all remotes.
func (h *hub) putTenant(ctx context.Context) error {
	connection, err := nats.Connect(h.nats.URL())
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	bucket, err := stream.KeyValue(ctx, "tenants")
	if err != nil {
		return err
	}
	_, err = bucket.Put(ctx, "acme", []byte(`{"clusters": {}, "quota": {"cpu": "2"}}`))
	return err
}

// strip takes the label of all volumes away: their copies have no original any more, and nothing says that this is on purpose.
func (h *hub) strip() {
	h.t.Helper()
	for i := range volumes {
		must(h.t, h.admin.Patch(h.t.Context(), volume(i), merge(`{"metadata":{"labels":{"sync":null}}}`)))
	}
}

// Promise: a hub works where streamed lists are refused: on the minor 1.33, and before 1.32.
func TestEmulated(t *testing.T) {
	t.Parallel()
	f := fleettest.New(t, fleet.Options{APIServerFlags: []string{"--emulated-version=1.33"}})
	cluster, err := f.Create(t.Context(), "hub")
	must(t, err)
	h := newHub(t, cluster, present(t))
	one, err := f.Create(t.Context(), "one")
	must(t, err)
	r := h.newRemote(one, fleet.KubernetesVersion)
	h.originals(r.Name())
	must(t, h.install())
	h.start("first")
	for _, s := range []step{{"registration", (*remote).register}, {"CRD and sync", (*remote).sync}, {"status", (*remote).status}} {
		if err := s.try(r); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
