// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"fmt"
	"net/http"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// Checks and handlers of a hub part on the servers of the hub end with its life.

// site has these checks and handlers, by the page and the name or path. The servers have one entry for each, which leads to the
// latest life.
type site struct {
	mu    sync.Mutex // protects the field
	slots map[string]slot
}

// slot has a check or a handler.
type slot struct {
	life    *Run // that has added it
	check   healthz.Checker
	handler http.Handler
}

// put adds the entry of the hub's servers for a new slot, and removes the slot if that fails.
func (s *site) put(name string, one slot, add func() error) error {
	s.mu.Lock()
	before, known := s.slots[name]
	if known && before.life.part != one.life.part {
		s.mu.Unlock()
		return fmt.Errorf("the hub part of module %s has added %s already; choose another name", before.life.part.module.Name, name)
	}
	s.slots[name] = one
	s.mu.Unlock()
	if known {
		return nil
	}
	err := panics.Catch(add)
	if err != nil {
		s.mu.Lock()
		delete(s.slots, name)
		s.mu.Unlock()
	}
	return err
}

// at also returns whether the life has not ended.
func (s *site) at(name string) (one slot, lives bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one = s.slots[name]
	return one, one.life.Context().Err() == nil
}

// The check of a life that has ended succeeds.
func (l *Run) addCheck(page, name string, check healthz.Checker, add func(string, healthz.Checker) error) error {
	s, key := &l.part.supervisor.site, page+"/"+name
	return s.put(key, slot{life: l, check: check}, func() error {
		return add(name, func(r *http.Request) error {
			one, lives := s.at(key)
			if !lives {
				return nil
			}
			return one.life.Guard().CallCheck("health check", one.check, r)
		})
	})
}

// lifeManager adds checks and handlers to the servers of the hub.
type lifeManager struct {
	ctrl.Manager
	life *Run
}

func (m *lifeManager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.life.addCheck("healthz", name, check, m.life.part.supervisor.Manager.AddHealthzCheck)
}

func (m *lifeManager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.life.addCheck("readyz", name, check, m.life.part.supervisor.Manager.AddReadyzCheck)
}

// net/http contains the panics of the handler.
func (m *lifeManager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	supervisor := m.life.part.supervisor
	return supervisor.site.put(path, slot{life: m.life, handler: handler}, func() error {
		return supervisor.Manager.AddMetricsServerExtraHandler(path, supervisor.site.handler(path))
	})
}

func (s *site) handler(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one, lives := s.at(path)
		if !lives {
			http.Error(w, "the hub part of module "+one.life.part.module.Name+" does not run", http.StatusServiceUnavailable)
			return
		}
		one.handler.ServeHTTP(w, r)
	})
}

func (m *lifeManager) Elected() <-chan struct{} {
	return m.life.part.supervisor.elected
}
