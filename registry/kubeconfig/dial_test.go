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
	"sync"
	"sync/atomic"
	"testing"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Promise: addresses are judged when the hub connects, after DNS.
func TestTransport_guardsTheDial(t *testing.T) {
	t.Parallel()
	server := serve(t, whoami, nil)
	named := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	c := kubeconfig.Connection{
		Endpoint:   kubeconfig.Endpoint{Server: named, CAData: shared(t).ca.cert},
		Credential: credential(t, "abc", issued{}),
	}
	wantDenied := func(t *testing.T, err error) {
		t.Helper()
		if denied, ok := errors.AsType[*kubeconfig.Error](err); !ok || denied.Reason != kubeconfig.ReasonAddressNotAllowed {
			t.Fatalf("got error %v, want %s", err, kubeconfig.ReasonAddressNotAllowed)
		}
		if reason, message := kubeconfig.Classify(err); reason != "AddressNotAllowed" || !strings.Contains(message, "loopback") {
			t.Errorf("got class %s: %s, want AddressNotAllowed for loopback", reason, message)
		}
	}
	t.Run("an address", func(t *testing.T) {
		t.Parallel()
		c := c
		c.Endpoint.Server = server.URL
		_, err := kubeconfig.NewTransport(c, kubeconfig.Policy{})
		wantDenied(t, err)
	})
	t.Run("a name that leads to loopback", func(t *testing.T) {
		t.Parallel()
		transport, err := kubeconfig.NewTransport(c, kubeconfig.Policy{})
		must(t, err)
		defer transport.Close()
		_, err = ask(t, transport, named)
		wantDenied(t, err)
	})
	t.Run("an address that is denied and allowed", func(t *testing.T) {
		t.Parallel()
		p := loopback()
		p.DenyCIDRs = prefixes("127.0.0.1/32", "::1/128")
		transport, err := kubeconfig.NewTransport(c, p)
		must(t, err)
		defer transport.Close()
		if _, err = ask(t, transport, named); !errors.As(err, new(*kubeconfig.Error)) {
			t.Errorf("got error %v, want an *Error", err)
		}
	})
	t.Run("the address of a proxy", func(t *testing.T) {
		t.Parallel()
		c := c
		c.Endpoint.ProxyURL = "http://localhost:1"
		transport, err := kubeconfig.NewTransport(c, kubeconfig.Policy{AllowProxyURL: true})
		must(t, err)
		defer transport.Close()
		_, err = ask(t, transport, named)
		wantDenied(t, err)
	})
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		wantAnswer(t, dial(t, named, c.Credential), named, `nobody "Bearer abc" HTTP/2.0`)
	})
}

func TestTransport_goesThroughTheProxy(t *testing.T) {
	t.Parallel()
	server := serve(t, whoami, nil)
	var asked atomic.Pointer[http.Request]
	var pipes sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pipes.Add(1)
		defer pipes.Done()
		asked.Store(r)
		connectThrough(w, r)
	}))
	t.Cleanup(pipes.Wait)
	t.Cleanup(proxy.Close)
	p := loopback()
	p.AllowProxyURL = true
	transport, err := kubeconfig.NewTransport(kubeconfig.Connection{
		Endpoint:   kubeconfig.Endpoint{Server: server.URL, CAData: shared(t).ca.cert, ProxyURL: proxy.URL},
		Credential: credential(t, canaryToken, issued{}),
	}, p)
	must(t, err)
	t.Cleanup(transport.Close)
	wantAnswer(t, transport, server.URL, `nobody "Bearer `+canaryToken+`" HTTP/2.0`)
	r := asked.Load()
	if r == nil || r.Method != http.MethodConnect || r.Host != strings.TrimPrefix(server.URL, "https://") {
		t.Fatalf("the proxy got %v, want a CONNECT to the server", r)
	}
	if part := leaked(fmt.Sprint(r.Header), canaryToken); part != "" {
		t.Errorf("the proxy got %q of the token", part)
	}
}

// connectThrough responds to a CONNECT request and copies bytes until both sides are closed.
func connectThrough(w http.ResponseWriter, r *http.Request) {
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	here, received, err := http.NewResponseController(w).Hijack() // received may have bytes already
	if err != nil {
		return
	}
	var pipes sync.WaitGroup
	for to, from := range map[net.Conn]io.Reader{here: there, there: received} {
		pipes.Go(func() {
			_, _ = io.Copy(to, from)
			_, _ = here.Close(), there.Close()
		})
	}
	pipes.Wait()
}

// Not parallel, because it changes the environment.
func TestTransport_refusesAnHTTPSProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "https://user:"+canaryPassword+"@proxy.example.com")
	p := kubeconfig.Policy{ProxyFromEnvironment: true}
	const server = "https://api.example.com"
	transport, err := kubeconfig.NewTransport(kubeconfig.Connection{
		Endpoint: kubeconfig.Endpoint{Server: server}, Credential: credential(t, "abc", issued{}),
	}, p)
	must(t, err)
	defer transport.Close()
	_, err = ask(t, transport, server)
	if err == nil || !strings.Contains(err.Error(), "HTTPS_PROXY") || leaked(err.Error(), canaryPassword) != "" {
		t.Errorf("got error %v, want HTTPS_PROXY in it without the password", err)
	}
}
