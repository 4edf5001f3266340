// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

// ErrDryOnly refuses a request that could change something in a rehearsal.
var ErrDryOnly = errors.New("a rehearsal sends only reads and dry runs")

// DryOnly returns a transport that refuses, with ErrDryOnly, what is no read, dry run or review of access. That the body of a delete
// agrees with its query is its sender's duty.
func DryOnly(next http.RoundTripper) http.RoundTripper { return dryOnly{next} }

type dryOnly struct{ next http.RoundTripper }

func (d dryOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if isHarmless(r) {
		return d.next.RoundTrip(r)
	}
	return Refuse(r, ErrDryOnly)
}

// WrappedRoundTripper returns the guarded transport, for client-go.
func (d dryOnly) WrappedRoundTripper() http.RoundTripper { return d.next }

func isHarmless(r *http.Request) bool {
	info := requestinfo.Of(r.URL.Path)
	switch info.Subresource {
	case "exec", "attach", "portforward", "proxy", "token": // A token is issued in a dry run, too.
		return false
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return r.Header.Get("Upgrade") == ""
	}
	return info.IsReview() || slices.Equal(r.URL.Query()["dryRun"], []string{metav1.DryRunAll})
}
