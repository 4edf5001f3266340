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
	metrics, health, debug server
	gatherer               prometheus.Gatherer
	shown                  atomic.Pointer[Checks]
}

// server does nothing without a listener.
type server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{} // closed when the server has ended
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 64 << 10
)

// Listen takes the addresses and begins to serve. A taken address is an error that matches syscall.EADDRINUSE. ctx
// bounds Listen only; the caller must call Close.
func Listen(ctx context.Context, o Options) (*Ports, error) {
	p := &Ports{gatherer: o.Gatherer}
	p.Show(nil)
	if err := p.take(ctx, o); err != nil {
		p.free()
		return nil, err
	}
	p.metrics.serve(o.Log.WithValues("serves", "metrics"), func() http.Handler { return p.shown.Load().metrics })
	p.health.serve(o.Log.WithValues("serves", "health"), func() http.Handler { return p.shown.Load().health })
	profiles := Profiles()
	p.debug.serve(o.Log.WithValues("serves", "debug"), func() http.Handler { return profiles })
	return p, nil
}

// take stops at the first address that it cannot have.
func (p *Ports) take(ctx context.Context, o Options) (err error) {
	if o.Debug, err = loopback(o.Debug); err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	if p.metrics.listener, err = listen(ctx, o.Metrics); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	if p.health.listener, err = listen(ctx, o.Health); err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	if p.debug.listener, err = listen(ctx, o.Debug); err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	return nil
}

func (p *Ports) free() {
	for _, s := range []*server{&p.metrics, &p.health, &p.debug} {
		if s.listener != nil {
			_ = s.listener.Close()
		}
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == Nowhere {
		return nil, nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
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
	p.metrics.close()
	p.health.close()
	p.debug.close()
}

func (s *server) serve(log logr.Logger, shown func() http.Handler) {
	if s.listener == nil {
		return
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { shown().ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelError),
	}
	s.done = make(chan struct{})
	log.V(1).Info("Listening", "address", s.listener.Addr().String())
	go func() {
		defer close(s.done)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "A server ended by itself")
		}
	}()
}

func (s *server) close() {
	if s.http != nil {
		_ = s.http.Close()
		<-s.done
	}
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
