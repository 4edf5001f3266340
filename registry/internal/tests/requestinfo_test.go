// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]requestinfo.Info{
		"/api/v1/pods":                                       {Version: "v1", Resource: "pods"},
		"/api/v1/namespaces":                                 {Version: "v1", Resource: "namespaces"},
		"/api/v1/namespaces/a":                               {Version: "v1", Resource: "namespaces", Name: "a"},
		"/api/v1/namespaces/a/finalize":                      {Version: "v1", Resource: "namespaces", Name: "a", Subresource: "finalize"},
		"/api/v1/namespaces/a/pods/b/exec":                   {Version: "v1", Namespace: "a", Resource: "pods", Name: "b", Subresource: "exec"},
		"/api/v1/namespaces/apis/pods":                       {Version: "v1", Namespace: "apis", Resource: "pods"},
		"/api/v1/namespaces/apis/pods/p/exec":                {Version: "v1", Namespace: "apis", Resource: "pods", Name: "p", Subresource: "exec"},
		"/api/v1/namespaces/api/pods":                        {Version: "v1", Namespace: "api", Resource: "pods"},
		"/apis/apps/v1/namespaces/a/deployments/b/scale":     {Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Name: "b", Subresource: "scale"},
		"/apis/apps/v1":                                      {Group: "apps", Version: "v1"},
		"/apis/example.com/stable/namespaces/a/widgets":      {Group: "example.com", Version: "stable", Namespace: "a", Resource: "widgets"},
		"/k8s/clusters/c-1/api/v1/nodes/n/proxy/run":         {Version: "v1", Resource: "nodes", Name: "n", Subresource: "proxy"},
		"/api/tenant/api/v1/namespaces/a/pods/p/exec":        {Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "exec"},
		"/api/v1/namespaces/a/pods/p/proxy/apis/apps/v1/x/y": {Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "proxy"},
		"/debug/flags/v":                                     {},
		"/version":                                           {},
		"/":                                                  {},
	} {
		testkit.Equal(t, requestinfo.Of(path), want, path)
	}
}

// A Namespace called apis contains collections like any other Namespace.
func TestInfo_IsCollection(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/pods": true, "/api/v1/namespaces/apis/pods": true, "/api/v1/namespaces/apis/pods/": true,
		"/api/v1/namespaces": true, "/api/v1/namespaces/x": false, "/api/v1/namespaces/x/status": false, "/apis/apps/v1": false, "/api": false,
	} {
		if got := requestinfo.Of(path).IsCollection(); got != want {
			t.Errorf("%s: got IsCollection %t", path, got)
		}
	}
}

func TestInfo_String(t *testing.T) {
	t.Parallel()
	const want = "deployments.apps/scale"
	if got := requestinfo.Of("/apis/apps/v1/namespaces/a/deployments/b/scale").String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOfInnermost(t *testing.T) {
	t.Parallel()
	maps := requestinfo.Info{Version: "v1", Namespace: "a", Resource: "configmaps", Name: "m"}
	for path, want := range map[string]requestinfo.Info{
		"/api/v1/namespaces/a/configmaps/m":                                                                    maps,
		"/apis/cluster.karmada.io/v1alpha1/clusters/c/proxy/api/v1/namespaces/a/configmaps/m":                  maps,
		"/api/v1/namespaces/x/services/s/proxy/apis/g.io/v1/clusters/c/proxy/api/v1/namespaces/a/configmaps/m": maps,
		"/api/v1/namespaces/a/pods/p/proxy/metrics":                                                            {Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "proxy"},
		"/api/v1/namespaces/a/pods/p/proxy":                                                                    {Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "proxy"},
	} {
		testkit.Equal(t, requestinfo.OfInnermost(path), want, path)
	}
}
