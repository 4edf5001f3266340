// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"net/http"
	"net/url"
	"testing"
)

// connects is true for requests that only look harmless, so they are not sent.
func TestTarget_Connects(t *testing.T) {
	t.Parallel()
	for path, method := range map[string]string{
		"/api/v1/namespaces/a/pods/p/exec":      http.MethodGet,
		"/api/v1/nodes/n/proxy/run":             http.MethodGet,
		"/api/v1/namespaces/a/services/s/proxy": http.MethodGet,
		"/api/v1/namespaces/a/pods/p/proxy/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": http.MethodPost,
		"/api/v1/namespaces/apis/pods/p/portforward":                                              http.MethodPost,
		"/anything":                          http.MethodPost,
		"/apis/example.com/stable/widgets/w": http.MethodPut,
		"/debug/api/flags/v":                 http.MethodPost,
	} {
		if !targetOf(path).connects(method) {
			t.Errorf("%s %s would be sent", method, path)
		}
	}
}

func TestIsPlain(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/pods": true, "/api/v1/pods/": true, "/": true, "/api//v1/pods": false, "/api/v1/x/../pods": false, "/api/./v1": false,
	} {
		if got := isPlain(&url.URL{Path: path}); got != want {
			t.Errorf("%s: got isPlain %t", path, got)
		}
	}
	if isPlain(&url.URL{Path: "/api/v1/pods", Opaque: "//elsewhere"}) {
		t.Error("isPlain is true for an opaque URL")
	}
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "True": true, "yes": true, "": true, "false": false} {
		if got := IsObserved(map[string]string{"clusterfx.dev/observe": value}); got != want {
			t.Errorf("%q: got IsObserved %t", value, got)
		}
	}
	if IsObserved(nil) {
		t.Error("IsObserved is true for a Cluster without annotations")
	}
}
