// SPDX-License-Identifier: Apache-2.0

package prefetch

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

// most is the number of lists that are sent ahead.
const most = 4

// Lists are the first lists of the caches of an app, on one endpoint.
type Lists struct {
	endpoint string
	isEnded  atomic.Bool

	mu  sync.Mutex // protects all; held for a few instructions
	all []recorded
}

// recorded is a list that an app has sent, with the timeout that it had.
type recorded struct {
	list
	timeout string
}

// list is what a cache asks for when it starts: all objects of a kind.
type list struct{ path, query, accept string }

// NewLists returns Lists that Record completes. The endpoint is the fingerprint of the one to which the lists are sent.
func NewLists(endpoint string) *Lists { return &Lists{endpoint: endpoint} }

// listOf returns the list that a request is. Only a cache sends such a request: a watch that begins with all objects, or the first
// page of a list from the API server's cache. A live list is none. Headers that could change the response make a request none, too.
func listOf(r *http.Request) (l recorded, isList bool) {
	if r.Method != http.MethodGet || !requestinfo.Of(r.URL.Path).IsCollection() || hasOther(r.Header) {
		return recorded{}, false
	}
	query := r.URL.Query()
	isWatch, begins := query.Get("watch") == "true", query.Get("sendInitialEvents") == "true"
	if isWatch != begins || !isWatch && (query.Get("resourceVersion") != "0" || query.Has("continue")) {
		return recorded{}, false
	}
	timeout := query.Get(timeoutKey) // It is random.
	query.Del(timeoutKey)
	return recorded{list{path: r.URL.Path, query: query.Encode(), accept: r.Header.Get("Accept")}, timeout}, true
}

const timeoutKey = "timeoutSeconds"

// hasOther reports whether a request has headers that are neither in each request of a client nor part of a trace.
func hasOther(h http.Header) bool {
	for key := range h {
		switch key {
		case "Accept", "Accept-Encoding", "User-Agent", "Authorization", "Traceparent", "Tracestate", "Baggage":
		default:
			return true
		}
	}
	return false
}

// request returns a request for the list.
func (l recorded) request(server *url.URL) *http.Request {
	target := *server
	target.Path, target.RawQuery = l.path, l.query
	if l.timeout != "" {
		target.RawQuery += "&" + timeoutKey + "=" + url.QueryEscape(l.timeout)
	}
	r := &http.Request{Method: http.MethodGet, URL: &target, Host: target.Host, Header: http.Header{}}
	r.Header.Set("Accept", l.accept)
	return r
}

// Record returns a transport that records the lists that are sent by way of it, until End.
func (l *Lists) Record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if !l.isEnded.Load() {
			l.note(r)
		}
		return next.RoundTrip(r)
	})
}

func (l *Lists) note(r *http.Request) {
	one, isList := listOf(r)
	if !isList {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	isKnown := slices.ContainsFunc(l.all, func(other recorded) bool { return other.list == one.list })
	if len(l.all) < most && !isKnown {
		l.all = append(l.all, one)
	}
}

// End ends the recording.
func (l *Lists) End() { l.isEnded.Store(true) }

// get returns the lists for an endpoint, of which nil Lists have none.
func (l *Lists) get(endpoint string) []recorded {
	if l == nil || l.endpoint != endpoint {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// roundTripper is a function that sends a request.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends the request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
