// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// serve starts an HTTP/2 server with a certificate of the shared CA. configure may be nil.
func serve(t *testing.T, handler http.HandlerFunc, configure func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, shared(t).server)}, ClientAuth: tls.RequestClientCert}
	if configure != nil {
		configure(s)
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func pair(t *testing.T, c issued) tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(c.cert, c.key)
	must(t, err)
	return certificate
}

// credential returns a Credential of the token or, if that is empty, of the certificate.
func credential(t *testing.T, token string, c issued) kubeconfig.Credential {
	t.Helper()
	if token != "" {
		return parse(t, withUser(t, "token: "+token)).Credential
	}
	return parse(t, withCertificate(t, c)).Credential
}

func dial(t *testing.T, url string, c kubeconfig.Credential) *kubeconfig.Transport {
	t.Helper()
	endpoint := kubeconfig.Endpoint{Server: url, CAData: shared(t).ca.cert}
	transport, err := kubeconfig.NewTransport(kubeconfig.Connection{Endpoint: endpoint, Credential: c}, loopback())
	must(t, err)
	t.Cleanup(transport.Close)
	return transport
}

// whoami responds with the user, the Authorization header and the protocol of the request.
func whoami(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	_, _ = fmt.Fprintf(w, "%s %q %s", name, r.Header.Get("Authorization"), r.Proto)
}

// ask sends a request and returns the body of the response.
func ask(t *testing.T, transport http.RoundTripper, url string) (string, error) {
	t.Helper()
	return askWithin(t.Context(), transport, url)
}

func askWithin(ctx context.Context, transport http.RoundTripper, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// wantAnswer fails the test unless the server sends the given response.
func wantAnswer(t *testing.T, transport http.RoundTripper, url, want string) {
	t.Helper()
	got, err := ask(t, transport, url)
	must(t, err)
	if got != want {
		t.Fatalf("got response %s, want %s", got, want)
	}
}

// watcher serves /watch, which sends its headers and a line and then nothing until the client or the test ends the
// request. It serves other paths with whoami.
func watcher(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/watch") {
		whoami(w, r)
		return
	}
	_, _ = io.WriteString(w, "begun\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// watch starts a watch and returns its body after the first line.
func watch(t *testing.T, transport http.RoundTripper, url string) io.ReadCloser {
	t.Helper()
	request := testkit.Request(t, http.MethodGet, url+"/watch")
	response, err := transport.RoundTrip(request)
	must(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	testkit.Must(t, testkit.Err(io.ReadFull(response.Body, make([]byte, len("begun\n")))))
	return response.Body
}

// within fails the test if the function takes longer than ten seconds.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s takes too long", what)
	}
}
