// SPDX-License-Identifier: Apache-2.0

package restmapper

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// responses is a server with a response for each path. It counts the requests for other paths.
type responses struct {
	mediaType string
	bodies    map[string]string
	others    atomic.Int64
}

func (a *responses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, found := a.bodies[r.URL.Path]
	if !found {
		a.others.Add(1)
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.mediaType)
	_, _ = io.WriteString(w, body)
}

func (a *responses) discover(t *testing.T) (*mapping, error) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	var m Mappings
	return m.discover(t.Context(), m.server(Remote{Host: server.URL, Client: client}))
}

func TestDiscover_Refuses(t *testing.T) {
	t.Parallel()
	const none = `{"items":[]}`
	for name, c := range map[string]struct {
		mediaType, api, apis string
		want                 error
	}{
		"a page":           {"text/html", none, none, kubeconfig.ErrNotKubernetes},
		"no type":          {" ", none, none, kubeconfig.ErrNotKubernetes},
		"garbage":          {aggregated, none, "]]", kubeconfig.ErrNotKubernetes},
		"not aggregated":   {runtime.ContentTypeJSON, `{"versions":["v1"]}`, `{"groups":[]}`, errNotAggregated},
		"too many bytes":   {aggregated, none, strings.Repeat(" ", maxDocument+1) + none, errDocumentTooLarge},
		"too many objects": {aggregated, none, `{"items":[{}` + strings.Repeat(",{}", maxDocumentObjects) + `]}`, errDocumentTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &responses{mediaType: c.mediaType, bodies: map[string]string{"/api": c.api, "/apis": c.apis}}
			testkit.ErrorIs(t, testkit.Err(a.discover(t)), c.want)
			if got := a.others.Load(); got > 0 {
				t.Errorf("got %d requests for groups, want 0", got)
			}
		})
	}
}
