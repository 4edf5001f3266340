// SPDX-License-Identifier: Apache-2.0

// Package servertest is the test kit of pipeline and guard: a namespace of a real API server for each test, managers in
// it, waiting, and a journal. The tests start the API server and install its kinds.
package servertest

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Patience bounds waits that normally take a second or two.
const Patience = time.Minute

// Server is a namespace of an API server, with a client that reads live.
type Server struct {
	client.WithWatch

	T         testing.TB
	Namespace string
	config    *rest.Config
}

// New returns a client for an API server, in a namespace of its own.
func New(t testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) *Server {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	direct := fleettest.ClientFor(t, config, add...)
	return &Server{WithWatch: direct, T: t, Namespace: fleettest.Namespace(t, direct, "test-"), config: config}
}

// Key returns the name of an object in the namespace.
func (s *Server) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

// Eventually waits until f returns no error.
func (s *Server) Eventually(f func() error) {
	s.T.Helper()
	testkit.Eventually(s.T, f)
}

// Manager returns a manager whose cache contains the objects of the namespace.
func (s *Server) Manager() ctrl.Manager {
	s.T.Helper()
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: s.Scheme(), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}},
	})
	testkit.Must(s.T, err)
	return mgr
}

// With returns the server with managers that have a changed configuration.
func (s *Server) With(change func(*rest.Config)) *Server {
	other := *s
	other.config = rest.CopyConfig(s.config)
	change(other.config)
	return &other
}

// Run runs a manager until the test ends or stop is called.
func (s *Server) Run(mgr ctrl.Manager) (stop func()) {
	s.T.Helper()
	return testkit.Background(s.T, mgr.Start)
}
