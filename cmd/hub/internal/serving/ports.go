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
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Nowhere is the address of a server that is not wanted.
const Nowhere = "0"

// Options are the addresses of a process and the handlers behind them.
type Options struct {
	// Metrics and Health are addresses as host:port, or Nowhere. Required.
	Metrics, Health string
	// Debug is the address of profiles. It must be a loopback address, or Nowhere. Default: Nowhere.
	Debug string
	// Checks has what is behind Metrics and Health. Required.
	Checks *Checks
	Log    logr.Logger
}

// Ports are the addresses of a process.
type Ports struct {
	servers []*http.Server
	serving sync.WaitGroup
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
	p := &Ports{}
	for _, one := range []struct {
		what, address string
		handler       http.Handler
	}{
		{"metrics", o.Metrics, o.Checks.metrics}, {"health", o.Health, o.Checks.health}, {"profiles", debug, Profiles()},
	} {
		if one.address == Nowhere {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", one.address)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("serve %s: %w", one.what, err)
		}
		p.serve(listener, o.Log.WithValues("serves", one.what), one.handler)
	}
	return p, nil
}

// Close frees the addresses and cuts off the requests in progress.
func (p *Ports) Close() {
	for _, s := range p.servers {
		_ = s.Close()
	}
	p.serving.Wait()
}

func (p *Ports) serve(listener net.Listener, log logr.Logger, handler http.Handler) {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelError),
	}
	p.servers = append(p.servers, s)
	log.V(1).Info("Listening", "address", listener.Addr().String())
	p.serving.Go(func() {
		if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(err, "A server ended by itself")
		}
	})
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
