// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// front is a server that responds to some requests itself and forwards the other requests to a real API server.
type front struct {
	server   *httptest.Server
	honest   *httputil.ReverseProxy
	requests atomic.Int64 // to which it responded itself

	mu      sync.Mutex // protects the fields
	answer  http.HandlerFunc
	about   func(*http.Request) bool
	pending map[*http.Request]context.CancelFunc
}

// newFront returns a front of a cluster, and the configuration of a remote behind it.
func newFront(t *testing.T, c *fleet.Cluster) (*front, state.Desired) {
	t.Helper()
	config := c.Config()
	to, err := url.Parse(config.Host)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	f := &front{pending: map[*http.Request]context.CancelFunc{}, honest: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Authorization")
		},
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2, f.server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	f.server.Config.BaseContext = func(net.Listener) context.Context { return t.Context() } // Close waits for all requests.
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	return f, configFor(t, f.kubeconfig("not-used"))
}

// kubeconfig returns a kubeconfig with a token, which the front removes from forwarded requests.
func (f *front) kubeconfig(token string) []byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x",
		"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
		"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"x","user":{"token":%q}}]}`,
		f.server.URL, base64.StdEncoding.EncodeToString(authority), token)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	f.mu.Lock()
	answer := f.answer
	mine := answer != nil && f.about(r)
	if !mine {
		f.pending[r] = cancel
	}
	f.mu.Unlock()
	if mine {
		f.requests.Add(1)
		answer(w, r)
		return
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.pending, r)
	}()
	f.honest.ServeHTTP(w, r.WithContext(ctx))
}

// set responds to requests that match about, and cancels such requests in progress; without a function it forwards all requests.
func (f *front) set(about func(*http.Request) bool, answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about, f.answer = about, answer
	f.requests.Store(0)
	for r, cancel := range f.pending {
		if about != nil && about(r) {
			cancel()
		}
	}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// at returns a function that matches requests for a path.
func at(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path }
}

func watchesOf(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path && isWatch(r) }
}

// canary is text of a remote that must not appear outside the response.
const canary = "text-of-the-remote"

func refuse(code int, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, failure(code, reason))
	}
}

func failure(code int, reason metav1.StatusReason) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, canary)
}

// expire starts a watch, and sends an event in it which reports that the version has expired.
func expire(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"ERROR","object":`+failure(http.StatusGone, metav1.StatusReasonExpired)+"}\n")
}

// A server on the way that responds with 404, as a proxy does whose agent is away, makes the remote unreachable with a reason of its
// own. To the app nothing is missing.
func TestFrontProxy_AgentAway(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"text": http.NotFound,
		"JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"no agent is connected"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			module, apps := handing("reader")
			r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{module} })
			c, _ := remote(t, "one")
			f, config := newFront(t, c)
			spawn(t, r, "one", config)
			app := <-apps
			f.set(func(*http.Request) bool { return true }, answer)
			for what, err := range map[string]error{
				"a read":     app.APIReader.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}),
				"a delete":   app.Client.Delete(t.Context(), configMap("default", 1)),
				"a new kind": app.APIReader.List(t.Context(), &policyv1.PodDisruptionBudgetList{}),
			} {
				if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
			expectStatus(t, r, "one", func(info registry.Status) bool { return info.Reachable.Reason == "NotForwarded" })
			f.set(nil, nil)
			expectState(t, r, "one", state.StateReady, state.ReasonReady)
		})
	}
}
