// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// Nowhere is the address of a server that is not wanted.
const Nowhere = "0"

// Options are the addresses of a process and the handlers behind them.
type Options struct {
	// Metrics and Health are addresses as host:port, or Nowhere. Required.
	Metrics, Health string
	// Debug is the address of profiles, whatever the site. It must be a loopback address, or Nowhere. Default: Nowhere.
	Debug string
	// Gatherer has the metrics. Required.
	Gatherer prometheus.Gatherer
	Log      logr.Logger
}

// Ports are the addresses of a process.
type Ports struct {
	servers  []*server
	gatherer prometheus.Gatherer
	shown    atomic.Pointer[Checks]
}

type server struct {
	http *http.Server
	done chan struct{} // closed when the server has ended
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 64 << 10
)

// Listen takes the addresses and begins to serve. A taken address is an error that matches syscall.EADDRINUSE. ctx
// bounds Listen only; the caller must call Close.
func Listen(ctx context.Context, o Options) (*Ports, error) {
	debug, err := loopback(o.Debug)
	if err != nil {
		return nil, fmt.Errorf("serve profiles: %w", err)
	}
	p, profiles := &Ports{gatherer: o.Gatherer}, Profiles()
	p.Show(nil)
	for _, one := range []struct {
		what, address string
		shown         func() http.Handler
	}{
		{"metrics", o.Metrics, func() http.Handler { return p.shown.Load().metrics }},
		{"health", o.Health, func() http.Handler { return p.shown.Load().health }},
		{"profiles", debug, func() http.Handler { return profiles }},
	} {
		if one.address == Nowhere {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", one.address)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("serve %s: %w", one.what, err)
		}
		p.servers = append(p.servers, serve(listener, o.Log.WithValues("serves", one.what), one.shown))
	}
	return p, nil
}

// Show serves a site in place of the one before; nil is none.
func (p *Ports) Show(s *Checks) {
	if s == nil {
		s = emptySite()
	}
	s.serveMetrics(p.gatherer)
	p.shown.Store(s)
}

// Close frees the addresses and cuts off the requests in progress.
func (p *Ports) Close() {
	for _, s := range p.servers {
		_ = s.http.Close()
		<-s.done
	}
}

func serve(listener net.Listener, log logr.Logger, shown func() http.Handler) *server {
	s := &server{done: make(chan struct{}), http: &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { shown().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelError),
	}}
	log.V(1).Info("Listening", "address", listener.Addr().String())
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "A server ended by itself")
		}
	}()
	return s
}

// loopback returns a loopback address, or Nowhere. There is no exception: a page for debugging has no other protection.
func loopback(address string) (string, error) {
	if address == "" || address == Nowhere {
		return Nowhere, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port), nil // whatever the resolver says
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return "", fmt.Errorf("%s is not an address of loopback: use 127.0.0.1:%s, and kubectl port-forward to reach it", address, port)
	}
	return address, nil
}

const pprofPath = "/debug/pprof/"

// Profiles returns a handler of /debug/pprof/, for requests to loopback.
func Profiles() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc(pprofPath, pprof.Index)
	pages.HandleFunc(pprofPath+"cmdline", pprof.Cmdline)
	pages.HandleFunc(pprofPath+"profile", pprof.Profile)
	pages.HandleFunc(pprofPath+"symbol", pprof.Symbol)
	pages.HandleFunc(pprofPath+"trace", pprof.Trace)
	return forLoopback(pages)
}

// forLoopback refuses requests that are for another host than this one.
func forLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			http.Error(w, "these pages are for localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
