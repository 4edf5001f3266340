// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// elsewhere is the target of redirects. It responds with an empty object, and records the requests.
type elsewhere struct {
	server *httptest.Server

	mu   sync.Mutex // protects seen
	seen []string
}

func startElsewhere(a *authority) *elsewhere {
	e := &elsewhere{}
	e.server = newServer(http.HandlerFunc(e.note), a.serverTLS("h2", "http/1.1"))
	e.server.EnableHTTP2 = true
	e.server.StartTLS()
	return e
}

func (e *elsewhere) url(r *http.Request) string { return e.server.URL + r.URL.RequestURI() }

func (e *elsewhere) note(w http.ResponseWriter, r *http.Request) {
	var with []string
	if r.Header.Get("Authorization") != "" {
		with = append(with, "a token")
	}
	if len(r.TLS.PeerCertificates) > 0 {
		with = append(with, "a certificate")
	}
	if n, _ := io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20)); n > 0 {
		with = append(with, fmt.Sprintf("a body of %d bytes", n))
	}
	e.mu.Lock()
	e.seen = append(e.seen, fmt.Sprintf("%s %s with %s", r.Method, r.URL.Path, strings.Join(with, " and ")))
	e.mu.Unlock()
	w.Header().Set("Content-Type", jsonType)
	_, _ = io.WriteString(w, "{}")
}

func (e *elsewhere) arrived() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}
