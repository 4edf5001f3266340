// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func TestTransport_authenticates(t *testing.T) {
	t.Parallel()
	server := serve(t, whoami, nil)
	t.Run("with a token", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, dial(t, server.URL, credential(t, "abc", issued{})), server.URL, `nobody "Bearer abc" HTTP/2.0`)
	})
	t.Run("with a client certificate", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, dial(t, server.URL, credential(t, "", shared(t).client)), server.URL, `client "" HTTP/2.0`)
	})
	t.Run("to a server without HTTP/2", func(t *testing.T) {
		t.Parallel()
		old := serve(t, whoami, func(s *httptest.Server) { s.EnableHTTP2 = false })
		wantAnswer(t, dial(t, old.URL, credential(t, "abc", issued{})), old.URL, `nobody "Bearer abc" HTTP/1.1`)
	})
	t.Run("with its own name only, and leaves the request alone", func(t *testing.T) {
		t.Parallel()
		for _, c := range []kubeconfig.Credential{credential(t, "abc", issued{}), credential(t, "", shared(t).client)} {
			transport := dial(t, server.URL, c)
			request := testkit.Request(t, http.MethodGet, server.URL)
			request.Header.Set("Authorization", "Bearer mine")
			response, err := transport.RoundTrip(request)
			must(t, err)
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if strings.Contains(string(body), "mine") {
				t.Errorf("the server got the caller's header: %s", body)
			}
			if request.Header.Get("Authorization") != "Bearer mine" || response.Request != request {
				t.Error("the request was changed")
			}
		}
	})
	t.Run("a request without headers", func(t *testing.T) {
		t.Parallel()
		request := testkit.Request(t, http.MethodGet, strings.Replace(server.URL, "https", "HTTPS", 1))
		request.Header = nil
		response, err := dial(t, server.URL, credential(t, "abc", issued{})).RoundTrip(request)
		must(t, err)
		_ = response.Body.Close()
	})
}

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

// Promise: a credential goes to the server of the endpoint only.
func TestTransport_sendsNothingElsewhere(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) }, nil)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}, nil)
	transport := dial(t, server.URL, credential(t, canaryToken, issued{}))
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, url := range []string{
		elsewhere.URL, "http://127.0.0.1" + port, "https://localhost" + port, "https://127.0.0.1", "ftp://127.0.0.1" + port,
	} {
		body := &closing{Reader: strings.NewReader(canaryPassword)}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		must(t, err)
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("a request to %s was sent, want an error", url)
		}
		if !body.closed.Load() {
			t.Errorf("the body of a request to %s was not closed", url)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("x"))
	must(t, err)
	response, err := transport.RoundTrip(request)
	must(t, err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusTemporaryRedirect || hits.Load() != 0 {
		t.Errorf("got status %d and %d requests elsewhere, want 307 and 0", response.StatusCode, hits.Load())
	}
	client := &http.Client{Transport: transport}
	if response, err := client.Get(server.URL); err == nil {
		_ = response.Body.Close()
		t.Error("a client followed the redirect")
	}
	testkit.Equal(t, hits.Load(), 0, "requests elsewhere")
}

func TestTransport_settings(t *testing.T) {
	t.Parallel()
	transport := dial(t, "https://127.0.0.1:6443", credential(t, "abc", issued{}))
	h := transport.HTTP()
	if h.Proxy != nil {
		t.Error("the transport uses the proxy of the environment")
	}
	for name, ok := range map[string]bool{
		"no compression":     h.DisableCompression,
		"HTTP/2":             h.ForceAttemptHTTP2,
		"handshake timeout":  h.TLSHandshakeTimeout == 5*time.Second,
		"header timeout":     h.ResponseHeaderTimeout == 30*time.Second,
		"idle timeout":       h.IdleConnTimeout == 30*time.Second,
		"header size":        h.MaxResponseHeaderBytes == 64<<10,
		"HTTP/2 health":      h.HTTP2.SendPingTimeout > 0 && h.HTTP2.PingTimeout > 0,
		"certificates count": !h.TLSClientConfig.InsecureSkipVerify,
	} {
		if !ok {
			t.Errorf("%s is not set", name)
		}
	}
	p := loopback()
	p.ProxyFromEnvironment = true
	other, err := kubeconfig.NewTransport(kubeconfig.Connection{
		Endpoint: kubeconfig.Endpoint{Server: "https://127.0.0.1"}, Credential: credential(t, "abc", issued{}),
	}, p)
	must(t, err)
	defer other.Close()
	if other.HTTP().Proxy == nil {
		t.Error("the transport ignores the proxy of the environment, which the operator allows")
	}
}

func TestNewTransport_rejects(t *testing.T) {
	t.Parallel()
	token := credential(t, "abc", issued{})
	for name, c := range map[string]struct {
		connection kubeconfig.Connection
		reason     kubeconfig.Reason
	}{
		"nothing":       {kubeconfig.Connection{}, kubeconfig.ReasonInvalidKubeconfig},
		"no credential": {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "https://a"}}, kubeconfig.ReasonInvalidKubeconfig},
		"http":          {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "http://a"}, Credential: token}, kubeconfig.ReasonSchemeNotAllowed},
		"insecure":      {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "https://a", Insecure: true}, Credential: token}, kubeconfig.ReasonInsecureTLSNotAllowed},
		"a proxy":       {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "https://a", ProxyURL: "http://b"}, Credential: token}, kubeconfig.ReasonProxyNotAllowed},
		"metadata":      {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "https://169.254.169.254"}, Credential: token}, kubeconfig.ReasonAddressNotAllowed},
		"a bad CA":      {kubeconfig.Connection{Endpoint: kubeconfig.Endpoint{Server: "https://a", CAData: []byte("x")}, Credential: token}, kubeconfig.ReasonInvalidKubeconfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kubeconfig.NewTransport(c.connection, kubeconfig.Policy{})
			if got, ok := errors.AsType[*kubeconfig.Error](err); !ok || got.Reason != c.reason {
				t.Errorf("got error %v, want %s", err, c.reason)
			}
		})
	}
}

func TestTransport_bounds(t *testing.T) {
	t.Parallel()
	t.Run("a server whose headers do not come", func(t *testing.T) {
		t.Parallel()
		server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
		transport := dial(t, server.URL, credential(t, "abc", issued{}))
		transport.HTTP().ResponseHeaderTimeout = 50 * time.Millisecond
		_, err := ask(t, transport, server.URL)
		wantClass(t, err, "TimedOut")
	})
	t.Run("a server that does not shake hands", func(t *testing.T) {
		t.Parallel()
		url := silent(t)
		transport := dial(t, url, credential(t, "abc", issued{}))
		transport.HTTP().TLSHandshakeTimeout = 50 * time.Millisecond
		_, err := ask(t, transport, url)
		wantClass(t, err, "TimedOut")
	})
	t.Run("headers without end", func(t *testing.T) {
		t.Parallel()
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		}, nil)
		if _, err := ask(t, dial(t, server.URL, credential(t, "abc", issued{})), server.URL); err == nil {
			t.Fatal("got 100 KB of headers, want an error")
		}
	})
	t.Run("compression is not asked for", func(t *testing.T) {
		t.Parallel()
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding"))
		}, nil)
		wantAnswer(t, dial(t, server.URL, credential(t, "abc", issued{})), server.URL, "")
	})
}

// silent returns the URL of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

func TestRESTConfig(t *testing.T) {
	t.Parallel()
	transport := dial(t, "https://127.0.0.1:6443/a", credential(t, canaryToken, issued{}))
	got := kubeconfig.RESTConfig(kubeconfig.Endpoint{Server: "https://127.0.0.1:6443/a"}, transport)
	if got.Host != "https://127.0.0.1:6443/a" || got.Transport != http.RoundTripper(transport) || got.QPS != -1 {
		t.Errorf("got host %s, QPS %v, want the server and -1", got.Host, got.QPS)
	}
	if got.BearerToken != "" || got.CertData != nil || got.CAData != nil || got.Insecure {
		t.Error("got credentials or TLS settings, want them in the transport only")
	}
}
