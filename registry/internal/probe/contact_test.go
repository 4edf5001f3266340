// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
)

const thingsPath = "/apis/example.com/v1"

func things() *machine.Questions {
	return &machine.Questions{Kinds: []schema.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "Thing"}}}
}

// slow is a pace without a second probe.
func slow() Pace { return Pace{Period: time.Hour, Timeout: time.Minute} }

// askedBeside are the other requests beside a first contact, in a test.
type askedBeside struct {
	calls        atomic.Int64
	began, ended chan struct{} // closed when they have begun, and when their context has ended
}

func newAskedBeside() *askedBeside {
	return &askedBeside{began: make(chan struct{}), ended: make(chan struct{})}
}

func (b *askedBeside) ask(ctx context.Context) {
	if b.calls.Add(1) == 1 {
		close(b.began)
	}
	<-ctx.Done()
	close(b.ended)
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	select {
	case <-c:
	case <-late.C:
		t.Fatalf("not within a minute: %s", what)
	}
}

func first(t *testing.T, c *Connection) machine.Probed {
	t.Helper()
	outcomes := make(chan machine.Probed, 100)
	c.Start(func(o machine.Probed) { outcomes <- o })
	var found machine.Probed
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { found = o; return true })
	return found
}

// results asks the questions of a preflight, and returns its first result.
func results(t *testing.T, c *Connection, q *machine.Questions) *machine.PreflightResult {
	t.Helper()
	found, done := (*machine.PreflightResult)(nil), make(chan struct{})
	c.Preflight(q, func(r *machine.PreflightResult) {
		if found == nil {
			found = r
			close(done)
		}
	})
	await(t, "a result of the preflight", done)
	return found
}

// The response with the identity comes after all other requests have arrived. The result of the preflight is used once.
func TestConnection_Beside(t *testing.T) {
	t.Parallel()
	server, asked, q := newAPIServer(t), newAskedBeside(), things()
	server.before = func(path string) {
		if path == identityPath {
			server.waitFor(t, "/version", 1)
			server.waitFor(t, thingsPath, 1)
			await(t, "the other requests", asked.began)
		}
	}
	c := server.connectBeside(t, slow(), Beside{Questions: q, Ask: asked.ask})
	if o := first(t, c); !o.OK || o.ID != "b7a1" || o.Version != "v1.36.0" {
		t.Errorf("got outcome %+v", o)
	}
	if found := results(t, c, q); found.Questions != q || found.Serves(q.Kinds[0]) || server.count(thingsPath) != 1 {
		t.Errorf("got result %+v and %d requests, want the result of the first request", found, server.count(thingsPath))
	}
	c.PreflightNow()
	server.waitFor(t, thingsPath, 2)
	c.ProbeNow()
	server.waitFor(t, "/version", 2)
	c.Close()
	await(t, "the end of the other requests, which Close waits for", asked.ended)
	if n := asked.calls.Load(); n != 1 {
		t.Errorf("the other requests were sent %d times, want 1: at the first contact", n)
	}
}

// What was requested beside a first contact that fails ends with it, and is not used.
func TestConnection_BesideAFailure(t *testing.T) {
	t.Parallel()
	server, asked, q := newAPIServer(t), newAskedBeside(), things()
	server.known = http.StatusInternalServerError
	server.before = func(path string) {
		if path == identityPath {
			server.waitFor(t, thingsPath, 1)
		}
	}
	c := server.connectBeside(t, slow(), Beside{Questions: q, Ask: asked.ask})
	defer c.Close()
	if o := first(t, c); o.OK {
		t.Error("the probe succeeds without an identity")
	}
	await(t, "the end of the other requests", asked.ended)
	server.change(func(s *apiServer) { s.before = nil })
	results(t, c, q)
	if n := server.count(thingsPath); n != 2 {
		t.Errorf("got %d requests of a preflight, want 2: the first is not used", n)
	}
}

// A remote that cannot be reached gets no other request than that for the identity.
func TestConnection_BesideNothing(t *testing.T) {
	t.Parallel()
	server, asked := newAPIServer(t), newAskedBeside()
	c := server.connectBeside(t, slow(), Beside{Ask: func(ctx context.Context) {
		if ctx.Err() == nil {
			t.Error("other requests are sent to a remote that cannot be reached")
		}
		asked.ask(ctx)
	}})
	defer c.Close()
	must(t, server.Listener.Close())
	if o := first(t, c); o.OK {
		t.Error("the probe succeeds without a server")
	}
	await(t, "the call that reports the failure", asked.ended)
}

// The result of a preflight with another credential, or with other questions, is not used.
func TestConnection_BesideAnotherCredential(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *apiServer, *Connection) *machine.Questions{
		"another credential": func(t *testing.T, s *apiServer, c *Connection) *machine.Questions {
			t.Helper()
			must(t, c.Swap(tokenOf(t, s, "second"), "second"))
			return c.early.Load().questions
		},
		"other questions": func(*testing.T, *apiServer, *Connection) *machine.Questions { return things() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t)
			c := server.connectBeside(t, slow(), Beside{Questions: things()})
			defer c.Close()
			if o := first(t, c); !o.OK {
				t.Fatalf("the probe fails: %s", o.Failed.Message)
			}
			server.waitFor(t, thingsPath, 1)
			results(t, c, change(t, server, c))
			if n := server.count(thingsPath); n < 2 {
				t.Errorf("got %d requests of a preflight, want another one", n)
			}
		})
	}
}

// A hanging response about the version ends with its timeout, and the probe fails.
func TestConnection_BesideAHangingVersion(t *testing.T) {
	t.Parallel()
	server, asked := newAPIServer(t), newAskedBeside()
	hanging := make(chan struct{})
	defer close(hanging)
	server.before = func(path string) {
		if path == "/version" {
			<-hanging
		}
	}
	c := server.connectBeside(t, Pace{Period: time.Hour, Timeout: 100 * time.Millisecond}, Beside{Ask: asked.ask})
	defer c.Close()
	if o := first(t, c); o.OK || o.Failed.Reason != "TimedOut" {
		t.Errorf("got outcome %+v, want a timeout", o)
	}
	await(t, "the end of the other requests", asked.ended)
}

// After a failure health and version are requested together, once the identity is known; what was beside the first contact
// is not requested again.
func TestConnection_BesideAfterAFailure(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	server.known = http.StatusInternalServerError
	calls, outcomes := make(chan bool, 100), make(chan machine.Probed, 100)
	c := server.connectBeside(t, slow(), Beside{Ask: func(ctx context.Context) {
		calls <- ctx.Err() == nil
		<-ctx.Done()
	}})
	defer c.Close()
	c.Start(func(o machine.Probed) { outcomes <- o })
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return !o.OK })
	<-calls // at the first contact
	versions := server.count("/version")
	server.change(func(s *apiServer) {
		s.known, s.before = http.StatusOK, func(path string) {
			if path == "/readyz" {
				server.waitFor(t, "/version", versions+1)
			}
		}
	})
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return o.OK })
	testkit.Equal(t, len(calls), 0, "calls after the failure")
}

// After an outage the version is requested beside the first identity that leaves on a new connection, and if that has failed,
// only when the identity is known: a remote that accepts connections and does not respond gets one request at a time.
func TestConnection_HurriesOnce(t *testing.T) {
	t.Parallel()
	server, outcomes := newAPIServer(t), make(chan machine.Probed, 1000)
	c := server.connectBeside(t, Pace{Period: 10 * time.Millisecond, Timeout: time.Minute}, Beside{})
	c.Start(func(o machine.Probed) { outcomes <- o })
	defer c.Close()
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return o.OK })
	versions := server.count("/version")
	server.change(func(s *apiServer) {
		s.known, s.opened = http.StatusServiceUnavailable, func(path string) {
			if path == identityPath { // The others are beside it, and would be cancelled by an early failure.
				server.waitFor(t, "/version", versions+1)
			}
		}
	})
	server.CloseClientConnections()
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return !o.OK })
	for range 3 {
		server.CloseClientConnections()
		server.waitFor(t, "/version", versions+1)
		server.waitFor(t, identityPath, server.count(identityPath)+1)
	}
	if got := server.count("/version") - versions; got != 1 {
		t.Errorf("got %d requests for the version in the outage, want 1", got)
	}
	server.change(func(s *apiServer) { s.known = http.StatusOK })
	expectNext(t, outcomes, time.Minute, func(o machine.Probed) bool { return o.OK })
	if got := server.count("/version") - versions; got != 2 {
		t.Errorf("got %d requests for the version, want another one when the identity is known", got)
	}
}
