// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/registry"
)

// A Hub runs in this process, with its API server. New creates it. A method that fails ends the test, so call
// methods, also of Remote, in the test's own goroutine.
type Hub struct{ Server }

// New starts a hub with its remotes, and returns when all are Ready. At the end of the test it stops the hub, fails
// the test if goroutines are left, and cleans the API servers. The test's later Cleanup functions run before that.
func New(tb testing.TB, opts ...Option) *Hub {
	tb.Helper()
	requireBinaries(tb)
	prepareProcess()
	s := newSite(tb, opts)
	if err := errors.Join(s.options.problems...); err != nil {
		tb.Fatalf("hubtest: %v", err)
	}
	tb.Cleanup(s.end)
	ways := s.open(tb, s.options.roles()...)
	s.hub = ways[0]
	s.hub.name = "the hub"
	h := &Hub{Server{tb: tb, site: s, way: s.hub}}
	h.prepare(s.options.hubCRDs)
	if ns := s.process.credentialsNamespace(); ns != hubv1.DefaultNamespace {
		h.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	if s.options.declaredHubRights {
		h.restrict()
	}
	if s.options.tunnels {
		h.prepareTunnels()
	}
	var remotes []*Remote
	for i, name := range s.options.remotes {
		remotes = append(remotes, h.addWay(name, ways[i+1]))
	}
	s.process.start(tb)
	for _, r := range remotes {
		r.Register()
	}
	for _, r := range remotes {
		r.WaitReady()
	}
	return h
}

// With returns the hub for another test, usually a subtest, which then owns failures and waits. The hub still ends with
// the test of New. Only one of several concurrent subtests may stop the hub, or change a remote.
func (h *Hub) With(tb testing.TB) *Hub {
	tb.Helper()
	return &Hub{Server{tb: tb, site: h.site, way: h.way}}
}

// Remote returns a remote, registered or not, and ends the test if there is none.
func (h *Hub) Remote(name string) *Remote {
	h.tb.Helper()
	known, _ := h.site.remotes.Load(name)
	state, ok := known.(*remote)
	if !ok {
		h.tb.Fatalf("hubtest: there is no remote %s: request it with hubtest.Remotes, or create it with AddRemote", name)
	}
	return &Remote{Server: Server{tb: h.tb, site: h.site, way: state.way}, state: state}
}

// NewRemote creates a remote that the hub does not know, so that a test can put objects there before Register.
func (h *Hub) NewRemote(name string) *Remote {
	h.tb.Helper()
	return h.addWay(name, h.site.open(h.tb, pool.Remote)[0])
}

// AddRemote is NewRemote and Register. It does not wait: some remotes never become Ready.
func (h *Hub) AddRemote(name string, changes ...func(*hubv1.Cluster)) *Remote {
	h.tb.Helper()
	r := h.NewRemote(name)
	r.Register(changes...)
	return r
}

func (h *Hub) addWay(name string, w *way) *Remote {
	h.tb.Helper()
	w.name = "remote " + name
	if _, known := h.site.remotes.LoadOrStore(name, &remote{name: name, way: w}); known {
		h.tb.Fatalf("hubtest: there are two remotes %s: use different names", name)
	}
	r := h.Remote(name)
	r.prepare(h.site.options.remoteCRDs)
	return r
}

// Registry returns the running hub's, another one after Restart.
func (h *Hub) Registry() *registry.Registry {
	h.tb.Helper()
	return h.site.process.parts(h.tb).Registry
}

// Cache reads as the hub's reconcilers do; it is another one after Restart.
func (h *Hub) Cache() client.Reader {
	h.tb.Helper()
	return h.site.process.parts(h.tb).Cache
}

// Start starts the hub after a Stop, and waits until its caches are filled.
func (h *Hub) Start() {
	h.tb.Helper()
	h.site.process.start(h.tb)
}

// Stop stops the hub as SIGTERM does, and waits for its end. API servers continue to run.
func (h *Hub) Stop() {
	h.tb.Helper()
	h.must(h.site.process.stop(), "stop the hub")
}

// Restart is Stop and Start. Statuses stay until the new hub reconciles them; WaitReady waits for that.
func (h *Hub) Restart() {
	h.tb.Helper()
	h.Stop()
	h.Start()
}
