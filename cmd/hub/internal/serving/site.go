// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// Paths at which a process serves.
const (
	metricsPath = "/metrics"
	healthzPath = "/healthz"
	readyzPath  = "/readyz"
)

var (
	errEmpty = errors.New("the hub starts, or starts over after it lost its lease")
	errShown = errors.New("it is served already: add checks and handlers before the hub's manager starts")
)

// Site is what one term of the hub serves.
type Site struct {
	mu          sync.Mutex // protects the fields until the site is shown; after that they do not change
	shown       bool
	live, ready map[string]healthz.Checker
	extra       map[string]http.Handler

	metrics, health http.Handler
}

// NewSite returns a site that is alive and ready.
func NewSite() *Site {
	return &Site{
		live:  map[string]healthz.Checker{"ping": healthz.Ping},
		ready: map[string]healthz.Checker{},
		extra: map[string]http.Handler{},
	}
}

// emptySite is alive and not ready.
func emptySite() *Site {
	s := NewSite()
	s.ready["hub"] = func(*http.Request) error { return errEmpty }
	return s
}

// AddHealthzCheck makes /healthz depend on a check.
func (s *Site) AddHealthzCheck(name string, check healthz.Checker) error {
	return s.add(func() { s.live[name] = check })
}

// AddReadyzCheck makes /readyz depend on a check.
func (s *Site) AddReadyzCheck(name string, check healthz.Checker) error {
	return s.add(func() { s.ready[name] = check })
}

// AddMetricsServerExtraHandler serves something else next to the metrics.
func (s *Site) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	s.mu.Lock()
	_, taken := s.extra[path]
	s.mu.Unlock()
	if taken || path == metricsPath {
		return fmt.Errorf("the metrics server has a handler for %s already", path)
	}
	return s.add(func() { s.extra[path] = handler })
}

func (s *Site) add(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		return errShown
	}
	change()
	return nil
}

// seal ends the time for additions.
func (s *Site) seal(g prometheus.Gatherer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		return
	}
	s.shown = true
	metrics := http.NewServeMux()
	metrics.Handle(metricsPath, promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // A metric that is wrong is left out; the others matter then.
		ErrorLog:      log.Default(),
	}))
	for path, handler := range s.extra {
		metrics.Handle(path, handler)
	}
	health := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{healthzPath: s.live, readyzPath: s.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		health.Handle(path, handler)
		health.Handle(path+"/", handler) // for one check alone
	}
	s.metrics, s.health = metrics, health
}
