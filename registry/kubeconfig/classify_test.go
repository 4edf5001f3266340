// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// wantClass fails the test unless the error has the given class, with a message that is suitable for a status.
func wantClass(t *testing.T, err error, want string) string {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	reason, message := kubeconfig.Classify(err)
	if reason != want {
		t.Errorf("%v: got %s, want %s", err, reason, want)
	}
	checkText(t, message+"; ") // the remedy may be a sentence of its own
	if part := leaked(message, canaryToken, canaryPassword); part != "" {
		t.Errorf("got text %q of the server in message %q", part, message)
	}
	return message
}

func TestClassify(t *testing.T) {
	t.Parallel()
	echo := errors.New(canaryToken)
	op := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://a", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
	system := func(errno syscall.Errno) error { return op(os.NewSyscallError("connect", errno)) }
	resource := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"refused":                   {system(syscall.ECONNREFUSED), "Unreachable"},
		"reset":                     {system(syscall.ECONNRESET), "Unreachable"},
		"no route to the host":      {system(syscall.EHOSTUNREACH), "Unreachable"},
		"no route to the network":   {system(syscall.ENETUNREACH), "Unreachable"},
		"timed out by the kernel":   {system(syscall.ETIMEDOUT), "TimedOut"},
		"no such host":              {op(&net.DNSError{Err: canaryToken, Name: canaryToken, IsNotFound: true}), "Unreachable"},
		"DNS does not answer":       {op(&net.DNSError{Err: "timeout", Name: canaryToken, IsTimeout: true}), "TimedOut"},
		"broken off":                {op(io.ErrUnexpectedEOF), "Unreachable"},
		"closed":                    {op(net.ErrClosed), "Unreachable"},
		"cancelled":                 {fmt.Errorf("get: %w", context.Canceled), "Unreachable"},
		"deadline":                  {fmt.Errorf("get: %w", context.DeadlineExceeded), "TimedOut"},
		"anything else":             {echo, "Unreachable"},
		"401":                       {&kubeconfig.StatusError{Code: 401}, "Unauthorized"},
		"403":                       {fmt.Errorf("%w: %w", &kubeconfig.StatusError{Code: 403}, echo), "Forbidden"},
		"404":                       {&kubeconfig.StatusError{Code: 404}, "NotHealthy"},
		"302":                       {&kubeconfig.StatusError{Code: 302}, "NotHealthy"},
		"429":                       {&kubeconfig.StatusError{Code: 429}, "Throttled"},
		"500":                       {&kubeconfig.StatusError{Code: 500}, "NotHealthy"},
		"503":                       {&kubeconfig.StatusError{Code: 503}, "NotHealthy"},
		"not Kubernetes":            {fmt.Errorf("version: %w", kubeconfig.ErrNotKubernetes), "NotHealthy"},
		"client-go's Unauthorized":  {apierrors.NewUnauthorized(canaryToken), "Unauthorized"},
		"client-go's Forbidden":     {fmt.Errorf("list: %w", apierrors.NewForbidden(resource, canaryToken, echo)), "Forbidden"},
		"client-go's unavailable":   {apierrors.NewServiceUnavailable(canaryToken), "NotHealthy"},
		"client-go's internal":      {apierrors.NewInternalError(echo), "NotHealthy"},
		"client-go without a code":  {&apierrors.StatusError{ErrStatus: metav1.Status{Message: canaryToken}}, "Unreachable"},
		"a refused credential":      {parseError(t), "ExecNotAllowed"},
		"a TLS alert of the server": {fmt.Errorf("get: %w", &net.OpError{Op: "remote error", Err: echo}), "TLSFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantClass(t, c.err, c.want)
		})
	}
	if reason, message := kubeconfig.Classify(nil); reason != "" || message != "" {
		t.Errorf("Classify(nil): got %s and %s, want empty strings", reason, message)
	}
}

func parseError(t *testing.T) error {
	t.Helper()
	_, err := kubeconfig.Parse(asKubeconfig(withUser(t, "exec: {command: "+canaryPassword+"}")), kubeconfig.Options{}, kubeconfig.Policy{})
	return fmt.Errorf("read the Secret: %w", err)
}

func TestClassify_realServers(t *testing.T) {
	t.Parallel()
	p := shared(t)
	with := func(change func(*tls.Config)) func(*httptest.Server) {
		return func(s *httptest.Server) { change(s.TLS) }
	}
	for name, c := range map[string]struct {
		configure func(*httptest.Server)
		ca        []byte
		name      string
		reason    string
		says      string
	}{
		"another CA":      {nil, p.other.cert, "", "TLSFailed", "not signed by the CA"},
		"another name":    {nil, p.ca.cert, "other.example.org", "TLSFailed", "tls-server-name"},
		"expired":         {with(func(c *tls.Config) { c.Certificates = []tls.Certificate{pair(t, p.old)} }), p.ca.cert, "", "TLSFailed", "expired"},
		"TLS 1.1":         {with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), p.ca.cert, "", "TLSFailed", "TLS 1.2"},
		"mTLS is refused": {with(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAndVerifyClientCert, tls.VersionTLS12 }), p.ca.cert, "", "TLSFailed", "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, whoami, c.configure)
			transport, err := kubeconfig.NewTransport(kubeconfig.Connection{
				Endpoint:   kubeconfig.Endpoint{Server: server.URL, CAData: c.ca, TLSServerName: c.name},
				Credential: credential(t, "abc", issued{}),
			}, loopback())
			must(t, err)
			t.Cleanup(transport.Close)
			_, err = ask(t, transport, server.URL)
			if message := wantClass(t, err, c.reason); !strings.Contains(message, c.says) {
				t.Errorf("message %q does not contain %q", message, c.says)
			}
		})
	}
	t.Run("a host that does not exist", func(t *testing.T) {
		t.Parallel()
		const url = "https://clusterfx.invalid"
		_, err := ask(t, dial(t, url, credential(t, "abc", issued{})), url)
		testkit.Has(t, wantClass(t, err, "Unreachable"), "was not found")
	})
	t.Run("no TLS", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, canaryToken) }))
		t.Cleanup(server.Close)
		url := strings.Replace(server.URL, "http:", "https:", 1)
		_, err := ask(t, dial(t, url, credential(t, "abc", issued{})), url)
		wantClass(t, err, "TLSFailed")
	})
	t.Run("another protocol", func(t *testing.T) {
		t.Parallel()
		url := banner(t, "SSH-2.0-"+canaryToken+"\r\n")
		_, err := ask(t, dial(t, url, credential(t, "abc", issued{})), url)
		wantClass(t, err, "TLSFailed")
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		url := silentAndGone(t)
		_, err := ask(t, dial(t, url, credential(t, "abc", issued{})), url)
		if message := wantClass(t, err, "Unreachable"); !strings.Contains(message, "refused") {
			t.Errorf("message %q does not contain refused", message)
		}
	})
}

// banner returns the URL of a server that sends a text in place of a TLS handshake.
func banner(t *testing.T, text string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "https://" + listener.Addr().String()
}

// silentAndGone returns a URL without a listener.
func silentAndGone(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_ = listener.Close()
	return "https://" + listener.Addr().String()
}
