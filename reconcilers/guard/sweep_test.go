// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// liar is a scripted API server that lists Leases, has no Tunnels, and counts deletions.
type liar struct {
	page    func(token string) coordinationv1.LeaseList
	missing func(w http.ResponseWriter)
	lists   atomic.Int64
	deletes atomic.Int64
}

func (s *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		s.deletes.Add(1)
		respond(w, http.StatusOK, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		})
	case strings.HasSuffix(r.URL.Path, "/leases"):
		s.lists.Add(1)
		list := s.page(r.URL.Query().Get("continue"))
		list.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}
		respond(w, http.StatusOK, list)
	default:
		s.missing(w)
	}
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// host returns the host of Tunnels of the API server.
func (s *liar) host(t testing.TB) *host {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(tunnels.WithKind("Tunnel"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{
		Scheme: fleettest.Scheme(t, addTunnels), Mapper: mapper, HTTPClient: &http.Client{Transport: transport},
	})
	must(t, err)
	return newHost(t, c, named(places["in a Lease"]))
}

// lease returns a Lease of the host as a guard writes it, except for the record.
func lease(n int, record string) coordinationv1.Lease {
	return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("guard-%s-%08d-0000-0000-0000-000000000000-01234567", name, n),
		UID: "1", ResourceVersion: "1", Labels: map[string]string{guard.Prefix + "host": name},
		Annotations: map[string]string{
			guard.Prefix + "object": "Tunnel.example.com default/a", guard.Prefix + "record": record,
			guard.Prefix + "condition": `{}`,
		},
	}}
}

// An endless list, with only broken Leases, ends a sweep, and its error stays short.
func TestSweep_OfAnEndlessList(t *testing.T) {
	t.Parallel()
	huge := lease(0, `{"attempt":"HOSTILE"}`)
	huge.Name = "guard-" + name + "-" + strings.Repeat("x", 1<<12) + "-01234567"
	for what, c := range map[string]struct {
		next  func(token string) string
		lists int64
	}{
		"a new token each time": {func(token string) string { n, _ := strconv.Atoi(token); return strconv.Itoa(n + 1) }, 200},
		"always the same token": {func(string) string { return "again" }, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &liar{page: func(token string) coordinationv1.LeaseList {
				n, _ := strconv.Atoi(token)
				return coordinationv1.LeaseList{
					ListMeta: metav1.ListMeta{Continue: c.next(token)},
					Items: []coordinationv1.Lease{
						huge, lease(2*n, `{"attempt":"HOSTILE"}`),
						lease(2*n+1, `{"type":"Tunneled","holder":"`+strings.Repeat("h", 1<<10)+`","ttlSeconds":30}`),
					},
				}
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			err := s.host(t).Sweep(ctx)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "does not end") {
				t.Fatalf("sweep: got error %.1000v", err)
			}
			if s.lists.Load() != c.lists || s.deletes.Load() != 0 {
				t.Errorf("got %d lists and %d deletions", s.lists.Load(), s.deletes.Load())
			}
			text := err.Error()
			if len(text) > 1000 || strings.Contains(text, "HOSTILE") {
				t.Errorf("error has %d bytes or text of a Lease: %.1000s", len(text), text)
			}
			if broken := fmt.Sprintf("%d Leases", 2*c.lists); !strings.Contains(text, broken) {
				t.Errorf("error lacks %q: %s", broken, text)
			}
		})
	}
}

// Only a 404 that names the object proves that the object is deleted. A sweep keeps the Lease after any other 404.
func TestSweep_BelievesA404ThatNamesTheObject(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: tunnels.Group, Resource: "tunnels"}
	status := func(err *apierrors.StatusError) func(w http.ResponseWriter) {
		said := err.Status()
		said.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		return func(w http.ResponseWriter) { respond(w, http.StatusNotFound, said) }
	}
	bare := apierrors.NewNotFound(resource, "a")
	bare.ErrStatus.Details = nil
	for what, c := range map[string]struct {
		missing func(w http.ResponseWriter)
		deletes int64
	}{
		"of the object":       {status(apierrors.NewNotFound(resource, "a")), 1},
		"of another object":   {status(apierrors.NewNotFound(resource, "b")), 0},
		"of another group":    {status(apierrors.NewNotFound(schema.GroupResource{Resource: "tunnels"}, "a")), 0},
		"of another resource": {status(apierrors.NewNotFound(schema.GroupResource{Group: tunnels.Group, Resource: "x"}, "a")), 0},
		"without details":     {status(bare), 0},
		"a page": {func(w http.ResponseWriter) { // the response of a Kubernetes API server for an unknown path
			http.Error(w, "404 page not found", http.StatusNotFound)
		}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := &liar{missing: c.missing, page: func(string) coordinationv1.LeaseList {
				return coordinationv1.LeaseList{Items: []coordinationv1.Lease{lease(1, `{}`)}}
			}}
			err := s.host(t).Sweep(t.Context())
			if s.deletes.Load() != c.deletes || (err == nil) != (c.deletes == 1) {
				t.Errorf("got %d deletions, error %v", s.deletes.Load(), err)
			}
		})
	}
}

// A failed sweep does not end its manager, and another sweep follows.
func TestSweeper_GoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	s := &liar{page: func(string) coordinationv1.LeaseList {
		return coordinationv1.LeaseList{Items: []coordinationv1.Lease{lease(1, `no record`)}}
	}}
	h := s.host(t)
	ended, end := context.WithCancel(t.Context())
	end()
	h.SetClock(ended) // this clock does not wait
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := s.page
	s.page = func(token string) coordinationv1.LeaseList {
		if s.lists.Load() == 3 {
			cancel()
		}
		return next(token)
	}
	if err := h.Sweeper(logr.Discard()).Start(ctx); err != nil || s.lists.Load() < 3 {
		t.Errorf("after %d lists: got error %v", s.lists.Load(), err)
	}
}
