// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A server with the documents of another one is asked, and sends none of them: the ETags are those that a real API server computes.
func TestDiscover_SendsNothingTwice(t *testing.T) {
	t.Parallel()
	var m Mappings
	one := discoverAt(t, &m, fleettest.Cluster(t, "one").Config())
	for i, tag := range one.tags {
		if tag == "" {
			t.Errorf("document %d: the ETag of the server is not the one that is computed here", i)
		}
	}
	var unchanged, sent atomic.Int64
	config := fleettest.Cluster(t, "two").Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode == http.StatusNotModified {
				unchanged.Add(1)
			} else {
				sent.Add(1)
			}
			return response, err
		})
	})
	if two := discoverAt(t, &m, config); two != one {
		t.Error("servers with the same documents have different mappings")
	}
	if unchanged.Load() != 2 || sent.Load() != 0 {
		t.Errorf("got %d documents that are unchanged and %d others, want 2 and 0", unchanged.Load(), sent.Load())
	}
}

// tagged is a server with one kind, whose ETags are right. It may lie about having a document.
type tagged struct {
	kind string
	lies func(path string) bool
	sent atomic.Int64 // how many documents it has sent
}

func (d *tagged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := apidiscovery.APIGroupDiscoveryList{}
	if r.URL.Path == "/apis" {
		list.Items = []apidiscovery.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: "example.com"},
			Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Resources: []apidiscovery.APIResourceDiscovery{{
				Resource: "things", Scope: apidiscovery.ScopeCluster, Verbs: []string{"get"},
				ResponseKind: &metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: d.kind},
			}}}},
		}}
	}
	asked := r.Header.Get("If-None-Match")
	if asked != "" && (asked == tagOf(list) || d.lies != nil && d.lies(r.URL.Path)) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	d.sent.Add(1)
	w.Header().Set("ETag", tagOf(list))
	w.Header().Set("Content-Type", aggregated)
	list.TypeMeta = metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}
	_ = json.NewEncoder(w).Encode(list)
}

// Servers whose documents differ in part have mappings of their own.
func TestDiscover_OneDocumentDiffers(t *testing.T) {
	t.Parallel()
	var m Mappings
	a, b := &tagged{kind: "A"}, &tagged{kind: "B"}
	atA, atB := serve(t, a), serve(t, b)
	ofA, ofB := discoverAt(t, &m, atA), discoverAt(t, &m, atB)
	if !knows(ofA, "A") || knows(ofA, "B") || !knows(ofB, "B") || knows(ofB, "A") {
		t.Error("mappings of different servers are mixed up")
	}
	if a.sent.Load() != 2 || b.sent.Load() != 2 { // The document that both have is needed to parse the other one.
		t.Errorf("got %d and %d documents, want 2 and 2", a.sent.Load(), b.sent.Load())
	}
	if again := discoverAt(t, &m, atA); again != ofA || a.sent.Load() != 3 {
		t.Errorf("a known mapping costs %d documents, want 1: the one that differs from the last", a.sent.Load()-2)
	}
}

// A server that claims to have any document gets the mapping of another one, and changes nothing for others.
func TestDiscover_Lies(t *testing.T) {
	t.Parallel()
	for what, lies := range map[string]func(string) bool{
		"about both": func(string) bool { return true },
		"about /api": func(path string) bool { return path == "/api" }, "about /apis": func(path string) bool { return path == "/apis" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var m Mappings
			honest := serve(t, &tagged{kind: "A"})
			first := discoverAt(t, &m, honest)
			discoverAt(t, &m, serve(t, &tagged{kind: "B", lies: lies}))
			other := discoverAt(t, &m, serve(t, &tagged{kind: "C"}))
			if !knows(other, "C") || knows(other, "A") || knows(other, "B") {
				t.Error("an honest server has the mapping of another one")
			}
			if again := discoverAt(t, &m, honest); !knows(again, "A") || knows(again, "B") || !knows(first, "A") || knows(first, "B") {
				t.Error("the mapping of a server has changed")
			}
		})
	}
}

// A server that was not asked about an ETag, and says that a document has not changed, is no API server.
func TestDiscover_UnchangedWithoutATag(t *testing.T) {
	t.Parallel()
	var m Mappings
	config := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }))
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	testkit.ErrorHas(t, testkit.Err(m.discover(t.Context(), m.server(Remote{Host: config.Host, Client: client}))), "304")
}
