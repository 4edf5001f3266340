// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// A Server is the API server of a Hub or a Remote, which embed it. The test is its administrator, on a connection
// without faults, and sets faults between it and the hub.
type Server struct {
	tb   testing.TB
	site *site
	way  *way
}

// Client reads live. It ends with the test that New was given.
func (s *Server) Client() client.WithWatch { return s.way.direct }

// Config returns a copy for other clients. The test must close their connections.
func (s *Server) Config() *rest.Config { return s.way.cluster.Config() }

// Create creates objects.
func (s *Server) Create(objects ...client.Object) {
	s.tb.Helper()
	for _, o := range objects {
		s.must(s.Client().Create(s.tb.Context(), o), "create %s in %s", describe(s.site.scheme, o), s.way.name)
	}
}

// Delete ignores missing objects. It does not wait for finalizers; see WaitGone.
func (s *Server) Delete(objects ...client.Object) {
	s.tb.Helper()
	for _, o := range objects {
		err := s.Client().Delete(s.tb.Context(), o, client.GracePeriodSeconds(0))
		s.must(client.IgnoreNotFound(err), "delete %s in %s", describe(s.site.scheme, o), s.way.name)
	}
}

// InstallCRDs waits until the kinds are served.
func (s *Server) InstallCRDs(crds ...*apiextensionsv1.CustomResourceDefinition) {
	s.tb.Helper()
	s.must(pool.InstallCRDs(s.tb.Context(), s.Client(), crds), "install CRDs in %s", s.way.name)
}

func (s *Server) prepare(trees []fs.FS) {
	s.tb.Helper()
	for _, tree := range trees {
		crds, err := pool.ReadCRDs(tree)
		s.must(err, "read CRDs")
		s.InstallCRDs(crds...)
	}
}

// Break puts a fault between the hub and the server until the next one, or Repair. Package e2e/fault has many; the
// methods below set the most common.
func (s *Server) Break(f fault.Fault) {
	s.tb.Helper()
	s.must(s.way.proxy.Set(f), "break the connection to %s", s.way.name)
}

// Blackhole drops all data: connections are silent, new ones are not established.
func (s *Server) Blackhole() {
	s.tb.Helper()
	s.Break(fault.Blackhole())
}

// Refuse resets connections and refuses new ones, as after a crash of the API server.
func (s *Server) Refuse() {
	s.tb.Helper()
	s.Break(fault.Refuse())
}

// Slow delays data by d in both directions: a response takes twice as long.
func (s *Server) Slow(d time.Duration) {
	s.tb.Helper()
	s.Break(fault.Delay(d, 0))
}

// Repair ends the fault.
func (s *Server) Repair() {
	s.tb.Helper()
	s.Break(fault.Pass())
}

// must ends the test if there is an error, with what was to be done.
func (s *Server) must(err error, what string, about ...any) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("hubtest: %s: %v", fmt.Sprintf(what, about...), err)
	}
}

func (s *Server) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.tb.Context(), s.site.options.patience)
}
