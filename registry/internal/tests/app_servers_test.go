// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// forBoth runs a test with each manager, in real time.
func forBoth(t *testing.T, f func(*testing.T, *recorded)) {
	t.Helper()
	for name, newManager := range made() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newRecorded(t, newManager))
		})
	}
}

// begin starts the manager, and returns a function that ends it and returns the result of Start.
func (s *recorded) begin(t *testing.T) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.result <- s.Start(ctx) }()
	return func() error {
		cancel()
		return <-s.result
	}
}

// A server serves before the caches have synced, and until the runnables have returned.
func TestManager_RunsServers(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, s *recorded) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		s.add(&manager.Server{Name: "test", Listener: listener, Server: &http.Server{ //nolint:gosec // It has one client.
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }),
		}})
		end := s.begin(t)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		// The listener holds the request until the server runs.
		get := func() string { return bodyOf(t, client, "http://"+listener.Addr().String()) }
		if got := get(); got != "served" {
			t.Errorf("got %q before the caches have synced, want a response", got)
		}
		close(s.cache.synced)
		<-s.Elected()
		testkit.Equal(t, get(), "served", "get")
		close(s.cache.release)
		if err := end(); err != nil {
			t.Errorf("Start: got %v, want nil", err)
		}
		if got := get(); got == "served" {
			t.Error("the server still serves")
		}
	})
}

// GetWebhookServer returns one server, which runs with the manager: without a certificate the manager fails.
func TestManager_RunsItsWebhookServer(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, s *recorded) {
		one := s.GetWebhookServer()
		if s.GetWebhookServer() != one {
			t.Error("GetWebhookServer returned two servers")
		}
		one.Register("/hook", http.NotFoundHandler())
		close(s.cache.synced)
		close(s.cache.release)
		testkit.ErrorHas(t, s.Start(t.Context()), "tls.crt", "Start")
	})
}

// The webhook server of a module ends with its manager, and that of the next manager serves on the same port.
func TestManager_WebhookServerEnds(t *testing.T) {
	t.Parallel()
	for name, newManager := range made() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that trusts it
			defer known.Close()
			client := known.Client()
			client.Transport.(*http.Transport).DisableKeepAlives = true
			address := netip.MustParseAddrPort(fleettest.FreeAddress(t))
			for life := range 2 {
				s := newRecorded(t, newManager)
				server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: int(address.Port()), TLSOpts: []func(*tls.Config){
					func(c *tls.Config) {
						c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &known.TLS.Certificates[0], nil }
					},
				}})
				server.Register("/life", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, life) }))
				s.add(server)
				close(s.cache.synced)
				close(s.cache.release)
				end := s.begin(t)
				gomega.NewWithT(t).Eventually(func() string { return bodyOf(t, client, "https://"+address.String()+"/life") }).
					WithTimeout(time.Minute).Should(gomega.Equal(fmt.Sprint(life)))
				if err := end(); err != nil {
					t.Errorf("Start: got %v, want nil", err)
				}
				if got := bodyOf(t, client, "https://"+address.String()+"/life"); got != "" {
					t.Errorf("got %q after the end of life %d, want no response", got, life)
				}
			}
		})
	}
}

// bodyOf returns the body of the response to a GET; empty if there is no response.
func bodyOf(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	request := testkit.Request(t, http.MethodGet, url)
	response, err := c.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

// A manager without servers of its own takes what belongs to them, and ignores it.
func TestManager_IgnoresChecksAndHandlers(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, s *recorded) {
		for what, err := range map[string]error{
			"AddHealthzCheck":              s.AddHealthzCheck("x", healthz.Ping),
			"AddReadyzCheck":               s.AddReadyzCheck("x", healthz.Ping),
			"AddMetricsServerExtraHandler": s.AddMetricsServerExtraHandler("/x", http.NotFoundHandler()),
		} {
			if err != nil {
				t.Errorf("%s: got %v, want nil", what, err)
			}
		}
	})
}

// Getters return what the manager was made with.
func TestManager_Getters(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, s *recorded) {
		if s.GetLogger().GetSink() == nil || s.GetControllerOptions().Logger.GetSink() != s.GetLogger().GetSink() {
			t.Error("the controllers do not have the logger of the manager by default")
		}
		kind := schema.GroupKind{Kind: "Kind"}
		if err := s.GetConverterRegistry().RegisterConverter(kind, nil); err != nil {
			t.Errorf("RegisterConverter: %v", err)
		}
		if _, known := s.GetConverterRegistry().GetConverter(kind); !known {
			t.Error("GetConverterRegistry does not return one registry")
		}
	})
}
