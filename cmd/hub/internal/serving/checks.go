// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"log"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const (
	metricsPath = "/metrics"
	healthzPath = "/healthz"
	readyzPath  = "/readyz"
)

// Checks has the checks and handlers of a hub. They may be added at any time.
type Checks struct {
	mu          sync.Mutex // protects the fields
	live, ready map[string]healthz.Checker
	extra       map[string]bool
	notes       func() []string

	metrics *http.ServeMux
	health  http.Handler
}

// NewChecks returns the checks of a hub with these metrics that is alive and ready.
func NewChecks(metrics prometheus.Gatherer) *Checks {
	s := &Checks{
		live:    map[string]healthz.Checker{"ping": healthz.Ping},
		ready:   map[string]healthz.Checker{},
		extra:   map[string]bool{metricsPath: true},
		metrics: http.NewServeMux(),
	}
	s.metrics.Handle(metricsPath, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // A metric that is wrong is left out; the others matter then.
		ErrorLog:      log.Default(),
	}))
	health := http.NewServeMux()
	for path, handler := range map[string]http.Handler{
		healthzPath: s.checks(s.live), readyzPath: s.noted(s.checks(s.ready)),
	} {
		handler = http.StripPrefix(path, handler)
		health.Handle(path, handler)
		health.Handle(path+"/", handler) // for one check alone
	}
	s.health = health
	return s
}

// checks are those at the time of the request.
func (s *Checks) checks(all map[string]healthz.Checker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		now := maps.Clone(all)
		s.mu.Unlock()
		(&healthz.Handler{Checks: now}).ServeHTTP(w, r)
	})
}

// noted adds notes if the details of all checks are requested.
func (s *Checks) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		s.mu.Lock()
		notes := s.notes
		s.mu.Unlock()
		if _, verbose := r.URL.Query()["verbose"]; !verbose || notes == nil || strings.Trim(r.URL.Path, "/") != "" {
			return
		}
		for _, note := range notes() {
			_, _ = fmt.Fprintf(w, "[!]%s\n", note)
		}
	})
}

// NoteReadyz has /readyz?verbose show notes on failures while the hub is ready, to everyone who reaches the port.
func (s *Checks) NoteReadyz(notes func() []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = notes
}

// AddHealthzCheck makes /healthz depend on a check.
func (s *Checks) AddHealthzCheck(name string, check healthz.Checker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[name] = check
	return nil
}

// AddReadyzCheck makes /readyz depend on a check.
func (s *Checks) AddReadyzCheck(name string, check healthz.Checker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[name] = check
	return nil
}

// AddMetricsServerExtraHandler serves something else next to the metrics.
func (s *Checks) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.extra[path] {
		return fmt.Errorf("the metrics server has a handler for %s already", path)
	}
	s.metrics.Handle(path, handler)
	s.extra[path] = true
	return nil
}
