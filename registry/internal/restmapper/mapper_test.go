// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func discoverAt(t *testing.T, m *Mappings, config *rest.Config) *mapping {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	found, err := m.discover(t.Context(), m.server(Remote{Host: config.Host, Client: client}))
	must(t, err)
	return found
}

func TestMappings_AreSharedBetweenEqualServers(t *testing.T) {
	t.Parallel()
	var m Mappings
	one := discoverAt(t, &m, fleettest.Cluster(t, "one").Config())
	two := discoverAt(t, &m, fleettest.Cluster(t, "two").Config())
	if one != two {
		t.Error("servers with the same documents have different mappings")
	}
	got, err := one.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil || got.Resource.Resource != "deployments" || got.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("RESTMapping(Deployment): got %v, error %v", got, err)
	}
	if _, err := one.RESTMapping(schema.GroupKind{Kind: "Node"}); err != nil {
		t.Errorf("RESTMapping(Node): %v", err)
	}
}

// discoveryServer serves one kind. All servers claim the same ETag.
type discoveryServer struct{ kind string }

func (d *discoveryServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("If-None-Match") != "" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("ETag", `"the same"`)
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	var document any = &apidiscovery.APIGroupDiscoveryList{}
	if r.URL.Path == "/apis" {
		document = &apidiscovery.APIGroupDiscoveryList{Items: []apidiscovery.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: "example.com"},
			Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Resources: []apidiscovery.APIResourceDiscovery{{
				Resource: "things", Scope: apidiscovery.ScopeCluster, Verbs: []string{"get"},
				ResponseKind: &metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: d.kind},
			}}}},
		}}}
	}
	_ = json.NewEncoder(w).Encode(document)
}

func serve(t *testing.T, d http.Handler) *rest.Config {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func knows(m meta.RESTMapper, kind string) bool {
	_, err := m.RESTMapping(schema.GroupKind{Group: "example.com", Kind: kind})
	return err == nil
}

// A server cannot give its mapping to another server, with the other server's ETag.
func TestMappings_OfServersThatDiffer(t *testing.T) {
	t.Parallel()
	var m Mappings
	a := discoverAt(t, &m, serve(t, &discoveryServer{kind: "A"}))
	b := discoverAt(t, &m, serve(t, &discoveryServer{kind: "B"}))
	if !knows(a, "A") || knows(a, "B") || !knows(b, "B") || knows(b, "A") {
		t.Error("mappings of different servers are mixed up")
	}
}

func TestMappings_AreForgottenWithTheirLastUser(t *testing.T) {
	var m Mappings
	config := serve(t, &discoveryServer{kind: "A"})
	discoverAt(t, &m, config)
	runtime.GC()
	runtime.GC()
	m.mu.Lock()
	for _, one := range m.shared {
		if one.Value() != nil {
			t.Error("mapping without an app is not freed")
		}
	}
	m.mu.Unlock()
	if !knows(discoverAt(t, &m, config), "A") {
		t.Error("freed mapping is not discovered again")
	}
}

func TestLiveMapper_FindsWhatIsInstalledLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked int
		answer := &mapping{RESTMapper: meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.com", Version: "v1"}})}
		live := newMapper(&mapping{RESTMapper: meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.com", Version: "v1"}})}, func() (*mapping, error) {
			asked++
			return answer, nil
		})
		for range 100 {
			if knows(live, "New") {
				t.Fatal("the mapper knows a kind that the server does not serve")
			}
		}
		testkit.Equal(t, asked, rediscoverBurst, "discoveries in a row")
		installed := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.com", Version: "v1"}})
		installed.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "New"}, meta.RESTScopeRoot)
		answer = &mapping{RESTMapper: installed}
		<-time.After(rediscoverInterval)
		if !knows(live, "New") || asked != rediscoverBurst+1 {
			t.Errorf("new kind is unknown after %d discoveries", asked)
		}
	})
}

func TestLiveMapper_KeepsWhatItHasWhenTheRemoteFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.com", Version: "v1"}})
		known.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Known"}, meta.RESTScopeRoot)
		live := newMapper(&mapping{RESTMapper: known}, func() (*mapping, error) { return nil, errors.New("down") })
		if knows(live, "New") || !knows(live, "Known") {
			t.Error("failed rediscovery changes the known kinds")
		}
	})
}
