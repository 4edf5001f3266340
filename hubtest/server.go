// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"io/fs"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// A Server is the API server of a Hub or a Remote, which embed it: the test reads and writes there as its administrator,
// and sets faults in the network between the server and the hub. The test itself has a separate connection without
// faults.
type Server struct {
	tb   testing.TB
	site *site
	way  *way
}

// Client returns an administrator's client without a cache: it reads the current state. It ends with the test that New
// was given.
func (s *Server) Client() client.WithWatch { return s.way.direct }

// Config returns a copy of an administrator's configuration, for other kinds of clients. The test has to close their
// connections.
func (s *Server) Config() *rest.Config { return s.way.cluster.Config() }

// Create creates objects.
func (s *Server) Create(objects ...client.Object) {
	s.tb.Helper()
	for _, o := range objects {
		if err := s.Client().Create(s.tb.Context(), o); err != nil {
			s.tb.Fatalf("hubtest: create %s in %s: %v", describe(s.site.scheme, o), s.way.name, err)
		}
	}
}

// Delete deletes objects; it ignores objects that do not exist. It does not wait for finalizers; see WaitGone.
func (s *Server) Delete(objects ...client.Object) {
	s.tb.Helper()
	for _, o := range objects {
		err := s.Client().Delete(s.tb.Context(), o, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			s.tb.Fatalf("hubtest: delete %s in %s: %v", describe(s.site.scheme, o), s.way.name, err)
		}
	}
}

// InstallCRDs creates CustomResourceDefinitions and returns when the server serves their kinds.
func (s *Server) InstallCRDs(crds ...*apiextensionsv1.CustomResourceDefinition) {
	s.tb.Helper()
	if err := pool.InstallCRDs(s.tb.Context(), s.Client(), crds); err != nil {
		s.tb.Fatalf("hubtest: %s: %v", s.way.name, err)
	}
}

// prepare installs the CRDs of the options of New.
func (s *Server) prepare(trees []fs.FS) {
	s.tb.Helper()
	for _, tree := range trees {
		crds, err := pool.ReadCRDs(tree)
		if err != nil {
			s.tb.Fatalf("hubtest: %v", err)
		}
		s.InstallCRDs(crds...)
	}
}

// Break puts a fault between the hub and the server until the next fault, or until Repair. The package e2e/fault has many
// faults; the methods below set the most common faults.
func (s *Server) Break(f fault.Fault) {
	s.tb.Helper()
	if err := s.way.proxy.Set(f); err != nil {
		s.tb.Fatalf("hubtest: break the connection to %s: %v", s.way.name, err)
	}
}

// Blackhole drops all data between the hub and the server: connections stay open and are silent, and new connections are
// not established.
func (s *Server) Blackhole() {
	s.tb.Helper()
	s.Break(fault.Blackhole())
}

// Refuse resets the hub's connections to the server and refuses new ones, as a machine does whose API
// server has crashed.
func (s *Server) Refuse() {
	s.tb.Helper()
	s.Break(fault.Refuse())
}

// Slow delays all data between the hub and the server by d, in both directions: a response takes twice as long.
func (s *Server) Slow(d time.Duration) {
	s.tb.Helper()
	s.Break(fault.Delay(d, 0))
}

// Repair ends the fault of Break, Blackhole, Refuse or Slow.
func (s *Server) Repair() {
	s.tb.Helper()
	s.Break(fault.Pass())
}

// context returns a context for a wait.
func (s *Server) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.tb.Context(), s.site.options.patience)
}
