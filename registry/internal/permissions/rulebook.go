// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Rulebook compares refused requests with the rules of modules, and has the undeclared permissions so far. It is safe
// for many goroutines.
type Rulebook struct {
	declared func(module string) (Declaration, bool)

	mu    sync.Mutex // protects known
	known map[state.UndeclaredAccess]struct{}
}

// New returns a Rulebook. declared returns the rules of a module, and whether the hub has it.
func New(declared func(module string) (Declaration, bool)) *Rulebook {
	return &Rulebook{declared: declared, known: map[state.UndeclaredAccess]struct{}{}}
}

const maxUndeclared = 256

func (b *Rulebook) add(u state.UndeclaredAccess) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.known[u]; known || len(b.known) >= maxUndeclared {
		return false
	}
	b.known[u] = struct{}{}
	return true
}

// Undeclared returns the undeclared permissions that were found so far, sorted.
func (b *Rulebook) Undeclared() []state.UndeclaredAccess {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.known), func(x, y state.UndeclaredAccess) int {
		return cmp.Or(cmp.Compare(x.Module, y.Module), cmp.Compare(x.String(), y.String()))
	})
}

// Requests describes the requests of one App to one API server.
type Requests struct {
	InHub bool
	// Senders may have sent a request that carries no module.
	Senders []string
	// Declared is for this App. Default: the rules for all remotes together.
	Declared func(module string) (Declaration, bool)
	Log      logr.Logger
	Explain  func(message string, problem state.Problem) string
}

// Judge returns a function that inspects the responses. If a request was refused for an undeclared permission, it
// explains that to the informer that has sent it.
func (b *Rulebook) Judge(of Requests) func(r *http.Request, status int) {
	return func(r *http.Request, status int) {
		if status != http.StatusForbidden {
			return
		}
		for _, u := range b.find(of, r) {
			if b.add(u) {
				of.Log.Info("A module lacks a permission that it does not declare", "problem", of.Explain(u.String(), u.Problem()))
			}
		}
	}
}

func (b *Rulebook) find(of Requests, r *http.Request) []state.UndeclaredAccess {
	needed, ok := accessOf(r)
	if !ok {
		return nil
	}
	if informer, _ := transport.ObserverOf(r.Context()).(*boundcache.Informer); informer != nil {
		needed.verbs = []string{"list", "watch"} // An informer needs both.
		var found []state.UndeclaredAccess
		for _, user := range informer.Users() {
			found = append(found, b.lackedBy(needed, of, user)...)
		}
		informer.Explain(explanationOf(found))
		return found
	}
	if guard := contain.GuardOf(r.Context()); guard != nil {
		return b.lackedBy(needed, of, guard.Module)
	}
	return b.lackedBy(needed, of, of.Senders...)
}

// explanationOf is empty if the modules declare the permission.
func explanationOf(found []state.UndeclaredAccess) (string, state.Problem) {
	if len(found) == 0 {
		return "", state.Problem{}
	}
	return found[0].String(), found[0].Problem()
}

// lackedBy returns what all possible senders lack.
func (b *Rulebook) lackedBy(needed access, of Requests, senders ...string) []state.UndeclaredAccess {
	declared, right := of.Declared, ""
	if declared == nil {
		declared = b.declared
	}
	for _, name := range senders {
		declaration, known := declared(name)
		if !known {
			return nil
		}
		if right = needed.undeclaredIn(declaration, of.InHub); right == "" {
			return nil
		}
	}
	if right == "" {
		return nil
	}
	return []state.UndeclaredAccess{{Module: strings.Join(senders, " or "), Right: right, InHub: of.InHub}}
}
