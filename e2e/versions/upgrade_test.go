// SPDX-License-Identifier: Apache-2.0

package versions_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// failover is how long a Cluster may be without a writer.
const failover = 15 * time.Second

// clusters is how many there are; two of them have rules and tenants, the others only the module inventory.
const clusters = 20

// Promise: an upgrade from the last release, and the way back, leaves no Cluster without a writer for longer than a fail-over takes.
func TestUpgrade(t *testing.T) {
	fleettest.Slow(t, "nothing: two releases of the program run side by side")
	if *release == "" {
		t.Skip("make test-upgrade names the release")
	}
	old := buildRelease(t, *release)
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			u := newUpgrade(t, old, replicas)
			before := u.state()
			u.watch()

			u.hub.program = present(t)
			must(t, u.hub.install())
			u.addField()
			u.roll("present")
			u.expectAsBefore("after the upgrade", before)

			u.hub.program = old
			told, err := u.hub.command("install", "--yes", "--wait=false", "--image", "example.com/hub:v1", "--config", u.hub.config)
			must(t, err)
			testkit.Has(t, told, "spec.synthetic", "what the older install says of the CRD")
			u.roll("old")
			u.expectAsBefore("after the way back", before)
			u.expectWatched()
		})
	}
}

// buildRelease builds the hub of a tag.
func buildRelease(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "-C", repository, "rev-parse", "--quiet", "--verify", tag+"^{commit}").CombinedOutput(); err != nil {
		t.Fatalf("there is no %s: run git fetch --tags\n%s", tag, out)
	}
	archive := filepath.Join(dir, "source.tar")
	for _, command := range [][]string{
		{"git", "-C", repository, "archive", "--output", archive, tag}, {"tar", "xf", archive, "-C", dir},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return build(t, dir)
}

// upgrade is a hub whose replicas are replaced, and what was seen meanwhile.
type upgrade struct {
	t       *testing.T
	hub     *hub
	remotes []*remote
	audits  []*fleet.AuditReader
	count   int // replicas
	names   []string

	began time.Time              // since when everything is watched
	lags  []func() time.Duration // end a writer, and return how long its longest change took
	moves func() (moved int, notReady []string)
}

func newUpgrade(t *testing.T, program string, count int) *upgrade {
	t.Helper()
	u := &upgrade{t: t, count: count}
	var addresses []netip.Addr
	for i := range clusters {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 4, 0, byte(i + 1)}))
	}
	f := fleettest.New(t, fleet.Options{Audit: true, Addresses: addresses})
	cluster, err := f.Create(t.Context(), "hub")
	must(t, err)
	u.hub = newHub(t, cluster, program)
	if count > 1 {
		u.hub.active = 0
	}
	u.hub.flags = []string{"--allow-duplicate-clusters"}
	for _, name := range []string{"north", "south"} {
		one, err := f.Create(t.Context(), name)
		must(t, err)
		u.remotes = append(u.remotes, u.hub.newRemote(one, fleet.KubernetesVersion))
	}
	u.hub.originals("north", "south")
	must(t, u.hub.install())
	for i := range count {
		u.start(fmt.Sprintf("old-%d", i))
	}
	for r, err := range each(t, u.remotes, (*remote).register) {
		t.Fatalf("register %s: %v", r.Name(), err)
	}
	for i := len(u.remotes); i < clusters; i++ {
		text, err := fleet.At(u.remotes[i%2].Kubeconfig(), addresses[i])
		must(t, err)
		u.add(fmt.Sprintf("c%02d", i), text)
	}
	must(t, u.hub.putTenant(t.Context()))
	for r, err := range each(t, u.remotes, func(r *remote) error { return errors.Join(r.sync(), r.status(), r.volumes(), r.tenant()) }) {
		t.Fatalf("%s: %v", r.Name(), err)
	}
	u.hub.strip()
	for r, err := range each(t, u.remotes, (*remote).guarded) {
		t.Fatalf("%s: %v", r.Name(), err)
	}
	return u
}

// add registers a Cluster that only runs the module inventory.
func (u *upgrade) add(name string, kubeconfig []byte) {
	u.t.Helper()
	must(u.t, u.hub.admin.Create(u.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}))
	must(u.t, u.hub.admin.Create(u.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}, Modules: []string{"inventory"},
	}}))
}

func (u *upgrade) start(name string) {
	u.t.Helper()
	u.hub.start(name)
	u.names = append(u.names, name)
}

// roll replaces the replicas one at a time, as a Deployment does: the next one is there before one ends.
func (u *upgrade) roll(program string) {
	u.t.Helper()
	before := u.names
	u.names = nil
	for i, name := range before {
		next := fmt.Sprintf("%s-%d", program, i)
		u.start(next)
		must(u.t, soon(u.t.Context(), func() error { return u.hub.isReady(next) }))
		must(u.t, u.hub.end(name, syscall.SIGTERM))
	}
}

// addField installs the CRD of a release to come.
func (u *upgrade) addField() {
	u.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(u.t, u.hub.admin.Get(u.t.Context(), client.ObjectKey{Name: "clusters." + hubv1.GroupName}, crd))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["synthetic"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	must(u.t, u.hub.admin.Update(u.t.Context(), crd))
}

// facts are what an upgrade must not change in a Cluster.
type facts struct {
	ID, Version, Summary string
	Conditions           map[string]string
	Modules              []hubv1.ModuleStatus
}

// state waits until all Clusters are Ready, and returns their facts.
func (u *upgrade) state() map[string]facts {
	u.t.Helper()
	found := map[string]facts{}
	must(u.t, soon(u.t.Context(), func() error {
		var all hubv1.ClusterList
		if err := u.hub.admin.List(u.t.Context(), &all); err != nil {
			return err
		}
		for i := range all.Items {
			one := &all.Items[i]
			f := facts{ID: one.Status.ID, Version: one.Status.Version, Summary: one.Status.ModuleSummary, Conditions: map[string]string{}, Modules: one.Status.Modules}
			for _, c := range one.Status.Conditions {
				f.Conditions[c.Type] = string(c.Status) + " " + c.Reason
			}
			if !meta.IsStatusConditionTrue(one.Status.Conditions, hubv1.ConditionReady) || !u.runs(one) {
				return fmt.Errorf("%s is not Ready in a replica that is there: %v, %s", one.Name, f.Conditions, one.Status.Runner.Name)
			}
			found[one.Name] = f
		}
		if len(found) != clusters {
			return fmt.Errorf("there are %d Clusters", len(found))
		}
		return nil
	}))
	return found
}

// runs reports whether a replica that has not ended runs a Cluster.
func (u *upgrade) runs(one *hubv1.Cluster) bool {
	for _, name := range u.names {
		if strings.HasPrefix(one.Status.Runner.Name, name) {
			return true
		}
	}
	return false
}

func (u *upgrade) expectAsBefore(when string, before map[string]facts) {
	u.t.Helper()
	must(u.t, soon(u.t.Context(), func() error { // The controllers of rules come after an app is Ready.
		if diff := gocmp.Diff(before, u.state()); diff != "" {
			return fmt.Errorf("%s the status differs:\n%s", when, diff)
		}
		return nil
	}))
	for r, err := range each(u.t, u.remotes, func(r *remote) error { return errors.Join(r.tenant(), r.guarded()) }) {
		u.t.Errorf("%s, %s: %v", when, r.Name(), err)
	}
}

// watch begins to follow the Clusters, and to change originals all the time.
func (u *upgrade) watch() {
	u.t.Helper()
	for _, r := range u.remotes {
		u.audits = append(u.audits, r.AuditReader())
		u.lags = append(u.lags, r.writer())
	}
	for _, audit := range u.audits {
		_, err := audit.Next()
		must(u.t, err)
	}
	u.began, u.moves = time.Now(), u.hub.follow()
}

// writer changes the original as soon as its copy has followed, until the returned function is called, which returns the longest time
// that a copy took.
func (r *remote) writer() func() time.Duration {
	ctx, cancel := context.WithCancel(r.hub.t.Context())
	longest := make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			value := fmt.Sprint("cup-", i)
			if err := errors.Join(r.order(value), r.copied(value)); err != nil {
				most = max(most, patience)
				break
			}
			most = max(most, time.Since(began))
		}
		longest <- most
	}()
	return func() time.Duration { cancel(); return <-longest }
}

// follow watches the Clusters until the returned function is called: how often one moved to another replica, and which were not Ready.
func (h *hub) follow() func() (int, []string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	f, done := following{runners: map[string]string{}}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // A change of the CRD ends a watch.
			events, err := h.admin.Watch(ctx, &hubv1.ClusterList{})
			if err != nil {
				continue
			}
			for event := range events.ResultChan() {
				if one, ok := event.Object.(*hubv1.Cluster); ok {
					f.see(one)
				}
			}
		}
	}()
	return func() (int, []string) { cancel(); <-done; return f.moved, f.notReady }
}

// following is what a watch has seen.
type following struct {
	runners  map[string]string
	moved    int
	notReady []string
}

func (f *following) see(one *hubv1.Cluster) {
	if was := f.runners[one.Name]; was != "" && was != one.Status.Runner.Name {
		f.moved++
	}
	f.runners[one.Name] = one.Status.Runner.Name
	if c := meta.FindStatusCondition(one.Status.Conditions, hubv1.ConditionReady); c == nil || c.Status == metav1.ConditionFalse {
		f.notReady = append(f.notReady, fmt.Sprintf("%s: %+v", one.Name, c))
	}
}

// expectWatched judges what was seen since watch.
func (u *upgrade) expectWatched() {
	u.t.Helper()
	for i, lag := range u.lags {
		if longest := lag(); longest > failover {
			u.t.Errorf("%s had no writer for %s, want at most %s", u.remotes[i].Name(), longest, failover)
		} else {
			u.t.Logf("%s: the longest time until a copy followed is %s", u.remotes[i].Name(), longest.Round(time.Millisecond))
		}
	}
	moved, notReady := u.moves()
	if len(notReady) > 0 {
		u.t.Errorf("Clusters were not Ready: %s", strings.Join(notReady, "\n"))
	}
	lists := 0
	for _, audit := range u.audits {
		events, err := audit.Next()
		must(u.t, err)
		for _, e := range events {
			if isList(e) && e.Received.After(u.began) { // A watch from before has ended meanwhile.
				lists++
			}
		}
	}
	u.t.Logf("%d Clusters moved %d times to another replica, and listed Nodes %d times", clusters, moved, lists)
	// Two rolls move each Cluster twice at the least. A replica that has built an app may have to give it up for another one.
	if moved < 2*clusters || lists > moved+clusters/2 {
		u.t.Errorf("listed Nodes %d times for %d moves", lists, moved)
	}
}

// isList reports whether a request reads all Nodes, which the module inventory does once for each app.
func isList(e fleet.AuditEvent) bool {
	streams := e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true")
	return e.Object.Resource == "nodes" && (streams || e.Verb == "list")
}
