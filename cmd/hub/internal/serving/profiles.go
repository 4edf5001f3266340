// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
)

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
