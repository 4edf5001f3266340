// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
)

func newPages(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(serving.Pages(serving.PagesOptions{
		Component: "hub", Version: "v1.2.3", Started: time.Now().Add(-3723 * time.Second),
		Flags: func() map[string]string {
			return map[string]string{
				"concurrency": "50", "api-token": "sesame", "tls-private-key": "sesame", "empty-password": "",
				"token-file": "/etc/token", "credentials-namespace": "clusterfx-system",
				"webhook": "https://me:sesame@example.com/hook?key=sesame", "two-lines": "a\nflag=b",
				"proxies": "[http://a.example.com,http://me:open,sesame@b.example.com/x?key=sesame,open&a=b,http://c.example.com]",
			}
		},
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func getPage(t *testing.T, url string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestHandler_Statusz(t *testing.T) {
	t.Parallel()
	code, text := getPage(t, newPages(t)+"/statusz", nil)
	for _, want := range []string{
		"\nhub statusz\nWarning: This endpoint is not meant to be machine parseable", "\nUp: 1 hr 02 min 03 sec\n",
		"\nGo version: go1.", "\nBinary version: v1.2.3\n", "\nPaths: /debug/pprof /flagz /statusz\n",
	} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no %q in %s", code, want, text)
		}
	}
}

func TestHandler_Flagz(t *testing.T) {
	t.Parallel()
	code, text := getPage(t, newPages(t)+"/flagz", nil)
	_, flags, _ := strings.Cut(text, "purposes only.\n\n")
	want := `api-token=[hidden]
concurrency=50
credentials-namespace=clusterfx-system
empty-password=
proxies=[http://a.example.com,http://[hidden]@b.example.com/x?[hidden]
tls-private-key=[hidden]
token-file=/etc/token
two-lines=a\nflag=b
webhook=https://[hidden]@example.com/hook?[hidden]
`
	if code != http.StatusOK || flags != want {
		t.Errorf("%d: %s", code, text)
	}
}

func TestHandler_Pprof(t *testing.T) {
	t.Parallel()
	url := newPages(t) + "/debug/pprof/"
	for page, want := range map[string]string{
		"": "full goroutine stack dump", "goroutine?debug=1": "goroutine profile: total", "heap?debug=1": "heap profile",
		"cmdline": "tests.test", "symbol": "num_symbols", "profile?seconds=1": "", "trace?seconds=0.1": "go 1.",
	} {
		if code, text := getPage(t, url+page, nil); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %.200s", page, code, text)
		}
	}
}

func TestHandler_Refuses(t *testing.T) {
	t.Parallel()
	url := newPages(t)
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"a foreign name that resolves to the hub": {func(r *http.Request) { r.Host = "evil.example.com:6060" }, http.StatusForbidden},
		"an address of elsewhere":                 {func(r *http.Request) { r.Host = "10.0.0.1:6060" }, http.StatusForbidden},
		"localhost is here":                       {func(r *http.Request) { r.Host = "localhost:6060" }, http.StatusOK},
		"and so is its address":                   {func(r *http.Request) { r.Host = "[::1]:6060" }, http.StatusOK},
		"another form":                            {func(r *http.Request) { r.Header.Set("Accept", "application/json") }, http.StatusNotAcceptable},
		"a browser takes text":                    {func(r *http.Request) { r.Header.Set("Accept", "text/html,*/*;q=0.8") }, http.StatusOK},
		"another method":                          {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, text := getPage(t, url+"/flagz", tc.change); code != tc.want {
				t.Errorf("%d: %s", code, text)
			}
		})
	}
}

// Pages have the header nosniff: a browser must not guess a type other than text/plain.
func TestHandler_NoSniff(t *testing.T) {
	t.Parallel()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, newPages(t)+"/flagz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options is %q, want nosniff", got)
	}
}
