// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// watchRetry holds on to a watch while the hub's API server cannot be reached. An informer whose watch fails waits up to a
// minute, whatever happens meanwhile; one whose watch has not failed continues at once. Other requests fail at once.
type watchRetry struct {
	next http.RoundTripper
	log  logr.Logger
	away atomic.Bool // the API server cannot be reached, and the log says so
}

const retryWatch = time.Second // retryWatch to twice as long is between tries.

func (p *watchRetry) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	for err != nil && isWatch(r) && r.Context().Err() == nil {
		if !p.away.Swap(true) {
			p.log.Info("The hub's API server cannot be reached; the hub continues with its caches", "problem", err.Error())
		}
		select {
		case <-time.After(retryWatch + rand.N(retryWatch)):
			response, err = p.next.RoundTrip(r)
		case <-r.Context().Done():
		}
	}
	if err == nil && p.away.Swap(false) {
		p.log.Info("The hub's API server is back")
	}
	return response, err
}

func (p *watchRetry) WrappedRoundTripper() http.RoundTripper { return p.next }

func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true"
}
