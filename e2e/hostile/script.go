// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// A Script defines when and how a Server lies. The zero value is honest.
type Script struct {
	// Name is short, and no other script has it.
	Name string

	lies  []lie // the first lie that matches a request applies
	http1 bool  // speak HTTP/1.1 only
	conn  func(*Server, net.Conn)
}

// lie is a response to some requests.
type lie struct {
	about func(*http.Request) bool
	tell  answer
}

// answer responds to a request. It returns when the response is complete, when the client has hung up, or when the
// server is closed.
type answer func(*Server, http.ResponseWriter, *http.Request)

// Scripts returns all scripts: the known ways in which an API server can misbehave.
func Scripts() []Script {
	return slices.Concat(
		strangers(), refusals(), redirects(), connections(), streams(), headers(), manyHeaders(), bodies(),
		identities(), discoveries(), lists(), pages(), objects(), watches(), endings(), events(),
	)
}

// Named returns the script of that name, and whether there is one.
func Named(name string) (Script, bool) {
	all := Scripts()
	i := slices.IndexFunc(all, func(s Script) bool { return s.Name == name })
	if i < 0 {
		return Script{}, false
	}
	return all[i], true
}

// The requests that scripts are about.

func everything(*http.Request) bool { return true }

// at returns a matcher of requests for these paths.
func at(paths ...string) func(*http.Request) bool {
	return func(r *http.Request) bool { return slices.Contains(paths, r.URL.Path) }
}

// Paths that a client requests before it trusts a server.
const (
	readyzPath  = "/readyz"
	versionPath = "/version"
	systemPath  = "/api/v1/namespaces/kube-system"
)

func probes(r *http.Request) bool { return at(readyzPath, versionPath, systemPath)(r) }

func discovery(r *http.Request) bool {
	return r.URL.Path == "/api" || r.URL.Path == "/api/v1" || r.URL.Path == "/apis" ||
		strings.HasPrefix(r.URL.Path, "/apis/") && strings.Count(r.URL.Path, "/") == 3
}

// beyond matches everything except probes and discovery: the server passes superficial checks.
func beyond(r *http.Request) bool { return !probes(r) && !discovery(r) }

func configMaps(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps")
}

func watching(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return configMaps(r) && (watch == "true" || watch == "1")
}

// streaming is about watches that are to begin with all objects.
func streaming(r *http.Request) bool {
	return watching(r) && r.URL.Query().Get("sendInitialEvents") == "true"
}

func listing(r *http.Request) bool { return configMaps(r) && !watching(r) }

// onLists returns lies about lists: the server refuses the watch that replaces lists, like an older one.
func onLists(tell answer) []lie {
	refused := status(http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden for watch")
	return []lie{{streaming, refused}, {listing, tell}}
}
