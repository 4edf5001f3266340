// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A connection has the labels of the goroutine that opens it, and outlives its app: net/http has those to remotes, and
// client-go those to the hub.
func TestGoroutines_Connections(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	toHub, err := rest.TransportFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	testkit.Must(t, err)
	for name, by := range map[string]http.RoundTripper{"remote": server.Client().Transport, "hub": toHub} {
		pprof.Do(t.Context(), pprof.Labels("connection", name), func(context.Context) {
			response, err := by.RoundTrip(testkit.Request(t, http.MethodGet, server.URL))
			testkit.Must(t, err)
			testkit.Must(t, response.Body.Close())
		})
		testkit.Eventually(t, func() error { // The goroutine that has dialed ends.
			if left := Goroutines("connection", name); len(left) > 0 {
				return fmt.Errorf("to the %s: %v", name, left)
			}
			return nil
		})
		opened := 0
		for range Stacks("connection", name) {
			opened++
		}
		testkit.Equal(t, opened, 1, "connections to the", name)
	}
}
