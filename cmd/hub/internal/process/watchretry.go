// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// watchRetry is a transport that holds on to a watch of the hub's API server while that cannot be
// reached. An informer whose watch fails tries again after a time that grows to a minute, whatever
// happens meanwhile; so a hub whose API server was away for half a minute would miss changes for
// another half minute. An informer whose watch has not failed continues as soon as the API server does.
//
// All other requests fail at once: the caller decides whether to retry them.
type watchRetry struct {
	next http.RoundTripper
	log  logr.Logger
	away atomic.Bool // the API server cannot be reached, and the log says so
}

// retryWatch is how long a watch waits at least until it is tried again; at most, twice as long.
const retryWatch = time.Second

// RoundTrip sends the request. It repeats a watch until there is a response or the context has ended.
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

// WrappedRoundTripper returns the transport below, for client-go.
func (p *watchRetry) WrappedRoundTripper() http.RoundTripper { return p.next }

func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true"
}
