// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// The time to check a response is proportional to its size, for any content. The benchmark reports the time per byte.
func BenchmarkDiscreet(b *testing.B) {
	hidden := kubeconfig.CredentialOf(&rest.Config{
		BearerToken: strings.Repeat("token-of-the-remote.", 50), TLSClientConfig: rest.TLSClientConfig{KeyData: shared(b).client.key},
	})
	pod := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"y","labels":{"a":"b"}},"spec":{"nodeName":"z"}}`
	for name, c := range map[string]struct{ path, body string }{
		"kinds":  {"/api/v1/pods/x", `{` + strings.Repeat(`"kind":"Pod",`, 20<<10) + `"x":1}`},
		"events": {"/api/v1/pods?watch=true", strings.Repeat(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`+"\n", 4<<10)},
		"list":   {"/api/v1/pods", `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Repeat(pod+",", 2<<10) + pod + `]}`},
	} {
		b.Run(name, func(b *testing.B) {
			client := kubeconfig.Discreet(roundTrip(func(*http.Request) (*http.Response, error) {
				header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(c.body))}, nil
			}), hidden)
			request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com"+c.path, http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(c.body)))
			for b.Loop() {
				response, err := client.RoundTrip(request)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body) // A body with repeated kinds is refused.
				_ = response.Body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(c.body)), "ns/byte")
		})
	}
}
