// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// sentTo records sent requests.
type sentTo struct{ requests []*http.Request }

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	return &http.Response{StatusCode: http.StatusConflict, Body: http.NoBody, Request: r}, nil
}

// Requests that cannot be tried without effect are not sent; all other requests that may change an object are sent as a
// dry run.
func TestObserving(t *testing.T) {
	t.Parallel()
	const pods, options = "/api/v1/namespaces/a/pods/p", `{"kind":"DeleteOptions","apiVersion":"v1"}`
	for name, c := range map[string]struct {
		method, path, form, body, upgrade string
		sent, dry                         bool
	}{
		"a read":                             {method: http.MethodGet, path: pods, sent: true},
		"a change":                           {method: http.MethodPut, path: pods, sent: true, dry: true},
		"a method that is new":               {method: "UNHEARD-OF", path: pods, sent: true, dry: true},
		"a change that says it is none":      {method: http.MethodPut, path: pods + "?dryRun=", sent: true, dry: true},
		"a deletion without options":         {method: http.MethodDelete, path: pods, sent: true, dry: true},
		"a deletion in JSON":                 {method: http.MethodDelete, path: pods, form: "application/json", body: options, sent: true, dry: true},
		"a deletion without a form":          {method: http.MethodDelete, path: pods, body: options, sent: true, dry: true},
		"a deletion in a form that is new":   {method: http.MethodDelete, path: pods, form: "application/cbor", body: options},
		"a deletion that is no JSON":         {method: http.MethodDelete, path: pods, form: "application/json", body: "kind: DeleteOptions"},
		"a path that is read in two ways":    {method: http.MethodGet, path: "/api/v1//namespaces/a/pods/p/exec"},
		"a path with dots":                   {method: http.MethodPut, path: "/api/v1/x/../namespaces/a/pods/p"},
		"a path that is read in two ways, 2": {method: http.MethodPut, path: "/api/v1/namespaces/a/pods//p"},
		"another protocol":                   {method: http.MethodGet, path: pods, upgrade: "websocket"},
		"exec":                               {method: http.MethodGet, path: pods + "/exec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), c.method, "https://remote"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", c.form)
			if c.upgrade != "" {
				r.Header.Set("Upgrade", c.upgrade)
			}
			var next sentTo
			_, err = (&observing{observer: &observer{}, next: &next}).RoundTrip(r)
			if sent := len(next.requests) == 1; sent != c.sent || errors.Is(err, ErrObserved) == c.sent {
				t.Fatalf("sent: got %t with error %v, want %t", sent, err, c.sent)
			}
			if c.sent && c.dry != isDry(t, next.requests[0]) {
				t.Errorf("wrong dry run in the sent request %s %s %v", next.requests[0].Method, next.requests[0].URL, next.requests[0].Header)
			}
		})
	}
}

// isDry reports whether an API server treats a request as a dry run: for a deletion the options count, if it has any.
func isDry(t *testing.T, r *http.Request) bool {
	t.Helper()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
	}
	all := r.URL.Query()["dryRun"]
	inQuery := len(all) == 1 && all[0] == "All"
	if r.Method == http.MethodDelete && len(body) > 0 {
		return inQuery && strings.Contains(string(body), `"dryRun":["All"]`)
	}
	return inQuery
}
