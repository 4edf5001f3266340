// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
)

// getProfile returns the response to a request for a page below /debug/pprof/, at a host.
func getProfile(t *testing.T, page, host string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/"+page, http.NoBody)
	r.Host = host
	w := httptest.NewRecorder()
	serving.Profiles().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"": "full goroutine stack dump", "goroutine?debug=1": "goroutine profile: total", "heap?debug=1": "heap profile",
		"cmdline": "tests.test", "symbol": "num_symbols", "profile?seconds=1": "", "trace?seconds=0.1": "go 1.",
	} {
		if code, text := getProfile(t, page, "localhost:6060"); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %.200s", page, code, text)
		}
	}
}

// A web page in a browser on this machine cannot read the profiles under a host name of its own.
func TestProfiles_ForLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{
		"evil.example.com:6060": http.StatusForbidden, "10.0.0.1:6060": http.StatusForbidden, "localhost": http.StatusOK, "[::1]:6060": http.StatusOK,
	} {
		if code, text := getProfile(t, "symbol", host); code != want {
			t.Errorf("%s: %d: %s", host, code, text)
		}
	}
}
