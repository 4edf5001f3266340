// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Checks and handlers may be added while the ports are open.
func TestPorts(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "of_the_process", Help: "x"}))
	checks := serving.NewChecks(metrics)
	options := serving.Options{Metrics: fleettest.FreeAddress(t), Health: fleettest.FreeAddress(t), Checks: checks}
	ports, err := serving.Listen(t.Context(), options)
	must(t, err)
	defer ports.Close()
	m, h := "http://"+options.Metrics, "http://"+options.Health
	expectPage(t, h+"/healthz", http.StatusOK, "ok")
	expectPage(t, h+"/readyz", http.StatusOK, "ok")
	expectPage(t, m+"/metrics", http.StatusOK, "of_the_process")
	expectPage(t, m+"/extra", http.StatusNotFound, "")

	failing := errors.New("no database")
	must(t, checks.AddReadyzCheck("database", func(*http.Request) error { return failing }))
	must(t, checks.AddHealthzCheck("loop", func(*http.Request) error { return failing }))
	must(t, checks.AddMetricsServerExtraHandler("/extra", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "more")
	})))
	for _, path := range []string{"/extra", "/metrics"} {
		if err := checks.AddMetricsServerExtraHandler(path, http.NotFoundHandler()); err == nil {
			t.Errorf("%s has two handlers", path)
		}
	}
	expectPage(t, h+"/readyz/database", http.StatusInternalServerError, "")
	expectPage(t, h+"/readyz", http.StatusInternalServerError, "[-]database failed")
	expectPage(t, h+"/healthz", http.StatusInternalServerError, "[-]loop failed")
	expectPage(t, h+"/healthz/ping", http.StatusOK, "ok")
	expectPage(t, m+"/extra", http.StatusOK, "more")
	testkit.ErrorIs(t, testkit.Err(serving.Listen(t.Context(), options)), syscall.EADDRINUSE, "Listen on an address in use")
	options.Metrics = serving.Nowhere
	testkit.ErrorIs(t, testkit.Err(serving.Listen(t.Context(), options)), syscall.EADDRINUSE, "Listen on an address in use")
}

// Only /readyz?verbose shows notes, and they change no status.
func TestSite_NoteReadyz(t *testing.T) {
	t.Parallel()
	site := serving.NewChecks(prometheus.NewRegistry())
	options := serving.Options{Metrics: serving.Nowhere, Health: fleettest.FreeAddress(t), Checks: site}
	ports, err := serving.Listen(t.Context(), options)
	must(t, err)
	defer ports.Close()
	must(t, site.AddReadyzCheck("caches", func(*http.Request) error { return nil }))
	site.NoteReadyz(func() []string { return []string{"the hub part of module dns does not run"} })
	h := "http://" + options.Health
	expectPage(t, h+"/readyz?verbose", http.StatusOK, "[!]the hub part of module dns does not run\n")
	expectPage(t, h+"/readyz?verbose", http.StatusOK, "[+]caches ok")
	for _, page := range []string{"/readyz", "/readyz/caches?verbose", "/healthz?verbose"} {
		expectNotOnPage(t, h+page, "dns")
	}
}

func expectPage(t *testing.T, url string, status int, text string) {
	t.Helper()
	got, body := fetchPage(t, url)
	if got != status || !strings.Contains(body, text) {
		t.Errorf("%s returns %d: %s", url, got, body)
	}
}

func expectNotOnPage(t *testing.T, url, text string) {
	t.Helper()
	if got, body := fetchPage(t, url); got != http.StatusOK || strings.Contains(body, text) {
		t.Errorf("%s returns %d: %s", url, got, body)
	}
}

func fetchPage(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request := testkit.Request(t, http.MethodGet, url)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}
