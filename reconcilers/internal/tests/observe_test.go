// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/observe"
)

type hubManager struct{ ctrl.Manager }

func (hubManager) GetClient() client.Client                       { return nil }
func (hubManager) GetScheme() *runtime.Scheme                     { return runtime.NewScheme() }
func (hubManager) GetLogger() logr.Logger                         { return logr.Discard() }
func (hubManager) GetEventRecorder(string) recorder.EventRecorder { return nil }

type sentTo struct{ requests []*http.Request }

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	status := http.StatusConflict
	if strings.HasSuffix(r.URL.Path, "reviews") { // It is no write, so nothing reports that it succeeds.
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

// Requests that cannot be tried without effect are not sent; all other requests that may change an object are sent as a
// dry run.
func TestObserving(t *testing.T) {
	t.Parallel()
	const pods, options = "/api/v1/namespaces/a/pods/p", `{"kind":"DeleteOptions","apiVersion":"v1"}`
	for name, c := range map[string]struct {
		method, path, form, body, upgrade, opaque string
		sent, dry                                 bool
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
		// Requests that only look harmless.
		"a command of a node":        {method: http.MethodGet, path: "/api/v1/nodes/n/proxy/run"},
		"a service":                  {method: http.MethodGet, path: "/api/v1/namespaces/a/services/s/proxy"},
		"a review behind a proxy":    {method: http.MethodPost, path: pods + "/proxy/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
		"a namespace named apis":     {method: http.MethodPost, path: "/api/v1/namespaces/apis/pods/p/portforward"},
		"outside of the API":         {method: http.MethodPost, path: "/anything"},
		"outside of the API, 2":      {method: http.MethodPost, path: "/debug/api/flags/v"},
		"a version that is none":     {method: http.MethodPut, path: "/apis/example.com/stable/widgets/w"},
		"a slash at the end":         {method: http.MethodGet, path: "/api/v1/pods/", sent: true},
		"the root":                   {method: http.MethodGet, path: "/", sent: true},
		"a dot":                      {method: http.MethodGet, path: "/api/./v1"},
		"a review of permissions":    {method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", sent: true, dry: true},
		"an eviction":                {method: http.MethodPost, path: pods + "/eviction", sent: true, dry: true},
		"an address beside the path": {method: http.MethodGet, path: pods, opaque: "//elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), c.method, "https://remote"+c.path, strings.NewReader(c.body))
			testkit.Must(t, err)
			r.URL.Opaque = c.opaque
			r.Header.Set("Content-Type", c.form)
			if c.upgrade != "" {
				r.Header.Set("Upgrade", c.upgrade)
			}
			var next sentTo
			_, err = observe.Middleware(hubManager{}).Transport("a", &next).RoundTrip(r)
			if sent := len(next.requests) == 1; sent != c.sent || errors.Is(err, observe.ErrObserved) == c.sent {
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

func TestObserved(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "True": true, "yes": true, "": true, "false": false} {
		testkit.Equal(t, observe.IsObserved(map[string]string{"clusterfx.dev/observe": value}), want, value, "IsObserved")
	}
	if observe.IsObserved(nil) {
		t.Error("IsObserved is true for a Cluster without annotations")
	}
}
