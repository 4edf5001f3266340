// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// elsewhere is the target of redirects. It responds with an empty object, and records the requests.
type elsewhere struct {
	listener net.Listener
	server   *http.Server
	running  sync.WaitGroup

	mu     sync.Mutex // protects the fields
	seen   []string
	closed bool
}

func startElsewhere(a *authority) (*elsewhere, error) {
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	e := &elsewhere{listener: listener}
	e.server = &http.Server{
		Handler: http.HandlerFunc(e.note), TLSConfig: a.serverTLS("h2", "http/1.1"),
		ErrorLog: silent(), ReadHeaderTimeout: time.Minute,
	}
	e.running.Go(func() { _ = e.server.ServeTLS(listener, "", "") })
	return e, nil
}

func (e *elsewhere) url(r *http.Request) string {
	return "https://" + e.listener.Addr().String() + r.URL.RequestURI()
}

func (e *elsewhere) note(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.running.Add(1)
	e.mu.Unlock()
	defer e.running.Done()
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

func (e *elsewhere) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	_ = e.server.Close()
	e.running.Wait()
}
