// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"strings"
	"time"
)

// PagesOptions are the content of the pages.
type PagesOptions struct {
	// Component is in the first line of each page. Required, as is Version.
	Component, Version string
	Started            time.Time
	// Flags returns the names and values of all flags. Default: none.
	Flags func() map[string]string
}

const (
	pprofPath   = "/debug/pprof/"
	statuszPath = "/statusz"
	flagzPath   = "/flagz"
)

// Pages returns a handler of the pages, for GET requests to loopback.
func Pages(o PagesOptions) http.Handler {
	if o.Flags == nil {
		o.Flags = func() map[string]string { return nil }
	}
	pages := http.NewServeMux()
	pages.HandleFunc(pprofPath, pprof.Index)
	pages.HandleFunc(pprofPath+"cmdline", pprof.Cmdline)
	pages.HandleFunc(pprofPath+"profile", pprof.Profile)
	pages.HandleFunc(pprofPath+"symbol", pprof.Symbol)
	pages.HandleFunc(pprofPath+"trace", pprof.Trace)
	pages.Handle(statuszPath, o.page("statusz", o.writeStatus))
	pages.Handle(flagzPath, o.page("flagz", o.writeFlags))
	return forLoopback(pages)
}

// header is Kubernetes's.
const header = "\n%s %s\nWarning: This endpoint is not meant to be machine parseable, " +
	"has no formatting compatibility guarantees and is for debugging purposes only.\n\n"

func (o PagesOptions) page(name string, write func(io.Writer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
			return
		case !takesText(r.Header.Get("Accept")):
			http.Error(w, "there is text/plain only", http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = fmt.Fprintf(w, header, o.Component, name)
		write(w)
	})
}

func takesText(accept string) bool {
	for form := range strings.SplitSeq(accept, ",") {
		switch kind, _, _ := mime.ParseMediaType(strings.TrimSpace(form)); kind {
		case "", "*/*", "text/*", "text/plain":
			return true
		}
	}
	return false
}

func (o PagesOptions) writeStatus(w io.Writer) {
	up := time.Since(o.Started).Round(time.Second)
	_, _ = fmt.Fprintf(w, "Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nPaths: %s\n",
		o.Started.Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		runtime.Version(), o.Version, strings.Join([]string{strings.TrimSuffix(pprofPath, "/"), flagzPath, statuszPath}, " "))
}

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
