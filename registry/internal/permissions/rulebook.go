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

// Rulebook compares refused requests with the rules that modules declare, and has the undeclared permissions that were
// found so far. All methods may be called from any goroutine.
type Rulebook struct {
	declared func(module string) (Declaration, bool)

	mu    sync.Mutex // protects known
	known map[state.UndeclaredAccess]struct{}
}

// New returns a Rulebook. declared returns the rules of a module, and reports whether the hub has the module.
func New(declared func(module string) (Declaration, bool)) *Rulebook {
	return &Rulebook{declared: declared, known: map[state.UndeclaredAccess]struct{}{}}
}

// maxUndeclared bounds the set of undeclared permissions.
const maxUndeclared = 256

// add adds a permission, and reports whether it is new.
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
	// InHub says that the server is the hub's.
	InHub bool
	// Senders are the modules that may have sent a request which carries no module.
	Senders []string
	// Declared returns the rules of a module for this App, and reports whether the hub has the module. Default: the rules of
	// the module for all remotes together.
	Declared func(module string) (Declaration, bool)
	// Log receives each undeclared permission that is found in these requests first.
	Log logr.Logger
	// Explain completes a message for the log with advice on its problem.
	Explain func(message string, problem state.Problem) string
}

// Judge returns a function that inspects the responses to these requests. If a request was refused for lack of a
// permission that the modules do not declare, the function adds this explanation to the informer that has sent the
// request.
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

// find returns the undeclared permissions for a request that was refused.
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

// explanationOf returns why a request of an informer was refused; empty if the modules declare the permission.
func explanationOf(found []state.UndeclaredAccess) (string, state.Problem) {
	if len(found) == 0 {
		return "", state.Problem{}
	}
	return found[0].String(), found[0].Problem()
}

// lackedBy returns the permission for a request that all its possible senders lack.
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
