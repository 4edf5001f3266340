// SPDX-License-Identifier: Apache-2.0

package prefetch

import (
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

// most is the number of lists that are sent ahead.
const most = 4

// Lists are the first lists that an app sends. They do not change after the app has started.
type Lists struct {
	mu      sync.Mutex // protects the fields; held for a few instructions
	all     []list
	isEnded bool
}

// list is a request for all objects of a kind. The timeout of a watch, which is random, is not part of it.
type list struct{ path, query, accept string }

// listOf returns the list that a request is: a watch that begins with all objects, or the first page of a list.
func listOf(r *http.Request) (l list, isList bool) {
	if r.Method != http.MethodGet || !requestinfo.Of(r.URL.Path).IsCollection() {
		return list{}, false
	}
	query := r.URL.Query()
	if query.Get("watch") == "true" && query.Get("sendInitialEvents") != "true" || query.Has("continue") {
		return list{}, false
	}
	query.Del("timeoutSeconds")
	return list{path: r.URL.Path, query: query.Encode(), accept: r.Header.Get("Accept")}, true
}

// request returns a request for the list. The server is the one that the path belongs to: a path may have the prefix of a proxy.
func (l list) request(server *url.URL) *http.Request {
	target := *server
	target.Path, target.RawQuery = l.path, l.query
	r := &http.Request{Method: http.MethodGet, URL: &target, Host: target.Host, Header: http.Header{}}
	r.Header.Set("Accept", l.accept)
	return r
}

// Record returns a transport that records the lists that are sent by way of it, until End. Nil Lists record nothing.
func (l *Lists) Record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.note(r)
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
	if !l.isEnded && len(l.all) < most && !slices.Contains(l.all, one) {
		l.all = append(l.all, one)
	}
}

// End ends the recording.
func (l *Lists) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isEnded = true
}

// get returns the lists, of which nil Lists have none.
func (l *Lists) get() []list {
	if l == nil {
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
