// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestTransport_Close(t *testing.T) {
	t.Parallel()
	t.Run("ends watches and refuses the rest", func(t *testing.T) {
		t.Parallel()
		server := serve(t, watcher, nil)
		transport := dial(t, server.URL, credential(t, "abc", issued{}))
		body := watch(t, transport, server.URL)
		transport.Close()
		transport.Close()
		within(t, "the end of the watch", func() {
			if _, err := io.ReadAll(body); !utilnet.IsProbableEOF(err) {
				t.Errorf("the watch ended with %v, want a probable EOF", err)
			}
		})
		testkit.ErrorIs(t, testkit.Err(ask(t, transport, server.URL)), net.ErrClosed, "request after Close")
		testkit.ErrorIs(t, transport.Swap(credential(t, "x", issued{})), net.ErrClosed, "Swap after Close")
		transport.CloseIdleConnections()
	})
	t.Run("ends a handshake", func(t *testing.T) {
		t.Parallel()
		url := silent(t)
		transport := dial(t, url, credential(t, "abc", issued{}))
		failed, begun := make(chan error, 1), make(chan struct{})
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{TLSHandshakeStart: func() { close(begun) }})
		go func() {
			_, err := askWithin(ctx, transport, url)
			failed <- err
		}()
		within(t, "the beginning of the handshake", func() { <-begun })
		transport.Close()
		within(t, "the end of the handshake", func() {
			if err := <-failed; err == nil {
				t.Error("the request succeeded, want an error")
			}
		})
	})
	t.Run("ends connections that drain", func(t *testing.T) {
		t.Parallel()
		server := serve(t, watcher, nil)
		transport := dial(t, server.URL, credential(t, "", shared(t).client))
		body := watch(t, transport, server.URL)
		must(t, transport.Swap(credential(t, "", shared(t).second)))
		transport.Close()
		within(t, "the end of the watch", func() { _, _ = io.ReadAll(body) })
	})
}

func TestTransport_CloseIdleConnections(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	server := serve(t, whoami, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	transport := dial(t, server.URL, credential(t, "abc", issued{}))
	testkit.Must(t, testkit.Err(ask(t, transport, server.URL)))
	transport.CloseIdleConnections()
	within(t, "the end of the connection", func() { <-closed })
	if _, err := ask(t, transport, server.URL); err != nil {
		t.Errorf("request after CloseIdleConnections: %v", err)
	}
}
