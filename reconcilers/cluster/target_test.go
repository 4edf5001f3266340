// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTargetOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]target{
		"/api/v1/pods":                                       {version: "v1", resource: "pods"},
		"/api/v1/namespaces/a/pods/b/exec":                   {version: "v1", namespace: "a", resource: "pods", name: "b", subresource: "exec"},
		"/apis/apps/v1/namespaces/a/deployments/b/scale":     {group: "apps", version: "v1", namespace: "a", resource: "deployments", name: "b", subresource: "scale"},
		"/api/v1/namespaces/a":                               {version: "v1", resource: "namespaces", name: "a"},
		"/api/v1/namespaces/a/finalize":                      {version: "v1", resource: "namespaces", name: "a", subresource: "finalize"},
		"/k8s/clusters/c-1/api/v1/nodes/n/proxy/run":         {version: "v1", resource: "nodes", name: "n", subresource: "proxy"},
		"/api/v1/namespaces/apis/pods/p/exec":                {version: "v1", namespace: "apis", resource: "pods", name: "p", subresource: "exec"},
		"/api/tenant/api/v1/namespaces/a/pods/p/exec":        {version: "v1", namespace: "a", resource: "pods", name: "p", subresource: "exec"},
		"/api/v1/namespaces/a/pods/p/proxy/apis/apps/v1/x/y": {version: "v1", namespace: "a", resource: "pods", name: "p", subresource: "proxy"},
		"/debug/flags/v":                                     {},
		"/":                                                  {},
	} {
		if got := targetOf(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// What only looks like a harmless request is not sent.
func TestTarget_Connects(t *testing.T) {
	t.Parallel()
	for path, method := range map[string]string{
		"/api/v1/namespaces/a/pods/p/exec":      http.MethodGet,
		"/api/v1/nodes/n/proxy/run":             http.MethodGet,
		"/api/v1/namespaces/a/services/s/proxy": http.MethodGet,
		"/api/v1/namespaces/a/pods/p/proxy/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": http.MethodPost,
		"/api/v1/namespaces/apis/pods/p/portforward":                                              http.MethodPost,
		"/anything": http.MethodPost,
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
			t.Errorf("%s: %t", path, got)
		}
	}
	if isPlain(&url.URL{Path: "/api/v1/pods", Opaque: "//elsewhere"}) {
		t.Error("an opaque URL is plain")
	}
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "True": true, "yes": true, "": true, "false": false} {
		if got := observed(map[string]string{"clusterfx.dev/observe": value}); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
	if observed(nil) {
		t.Error("a Cluster without annotations is observed")
	}
}
