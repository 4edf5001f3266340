// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func counting(n *atomic.Int32) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				n.Add(1)
			}
		}
	}
}

func swap(t *testing.T, transport *kubeconfig.Transport, c kubeconfig.Credential) {
	t.Helper()
	must(t, transport.Swap(c))
}

func TestTransport_Swap_token(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := serve(t, watcher, counting(&connections))
	transport := dial(t, server.URL, credential(t, "one", issued{}))
	watch(t, transport, server.URL)
	wantAnswer(t, transport, server.URL, `nobody "Bearer one" HTTP/2.0`)
	swap(t, transport, credential(t, "two", issued{}))
	wantAnswer(t, transport, server.URL, `nobody "Bearer two" HTTP/2.0`)
	testkit.Equal(t, connections.Load(), 1, "connections")
}

func TestTransport_Swap_certificate(t *testing.T) {
	t.Parallel()
	p := shared(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-release
		}
		watcher(w, r)
	}, nil)
	transport := dial(t, server.URL, credential(t, "", p.client))
	transport.Drain = 500 * time.Millisecond
	body := watch(t, transport, server.URL)
	slow := make(chan string, 1)
	go func() {
		answer, err := askWithin(t.Context(), transport, server.URL+"/slow")
		slow <- fmt.Sprint(answer, err)
	}()
	<-arrived

	swap(t, transport, credential(t, "", p.second))
	wantAnswer(t, transport, server.URL, `second "" HTTP/2.0`)
	close(release)
	testkit.Equal(t, <-slow, `client "" HTTP/2.0<nil>`, "request in progress")
	within(t, "the end of the watch", func() {
		// client-go resumes a watch with this error from its last version, without a list.
		if _, err := io.ReadAll(body); !utilnet.IsProbableEOF(err) {
			t.Errorf("the watch ended with %v, want a probable EOF", err)
		}
	})
	wantAnswer(t, transport, server.URL, `second "" HTTP/2.0`)
}

func TestTransport_Swap_closesIdleConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	p := shared(t)
	closed := make(chan struct{}, 1)
	server := serve(t, whoami, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	transport := dial(t, server.URL, credential(t, "", p.client))
	wantAnswer(t, transport, server.URL, `client "" HTTP/2.0`)
	swap(t, transport, credential(t, "", p.second))
	within(t, "the end of the idle connection", func() { <-closed })
}

func TestTransport_Swap_kinds(t *testing.T) {
	t.Parallel()
	p := shared(t)
	var connections atomic.Int32
	server := serve(t, whoami, counting(&connections))
	transport := dial(t, server.URL, credential(t, "", p.client))
	wantAnswer(t, transport, server.URL, `client "" HTTP/2.0`)
	swap(t, transport, credential(t, "", p.client))
	wantAnswer(t, transport, server.URL, `client "" HTTP/2.0`)
	testkit.Equal(t, connections.Load(), 1, "connections with the same certificate")
	swap(t, transport, credential(t, "abc", issued{}))
	wantAnswer(t, transport, server.URL, `nobody "Bearer abc" HTTP/2.0`)
	swap(t, transport, credential(t, "", p.second))
	wantAnswer(t, transport, server.URL, `second "" HTTP/2.0`)
	err := transport.Swap(kubeconfig.Credential{})
	if !errors.As(err, new(*kubeconfig.Error)) {
		t.Errorf("Swap to an empty credential: got %v, want an *Error", err)
	}
	wantAnswer(t, transport, server.URL, `second "" HTTP/2.0`)
}

func TestTransport_Swap_losesNoRequest(t *testing.T) {
	t.Parallel()
	p := shared(t)
	server := serve(t, whoami, nil)
	transport := dial(t, server.URL, credential(t, "", p.client))
	credentials := []kubeconfig.Credential{
		credential(t, "one", issued{}), credential(t, "two", issued{}), credential(t, "", p.second), credential(t, "", p.client),
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				if _, err := askWithin(t.Context(), transport, server.URL); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		swap(t, transport, credentials[i%len(credentials)])
		wantAnyAnswer(t, transport, server.URL)
	}
	clients.Wait()
}

func wantAnyAnswer(t *testing.T, transport http.RoundTripper, url string) {
	t.Helper()
	if _, err := ask(t, transport, url); err != nil {
		t.Error(err)
	}
}
