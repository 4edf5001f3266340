// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// This file finds the permissions that a module uses and does not declare. To grant them in one remote would fix that
// remote only: every other remote grants the permissions that the module declares.

// UndeclaredAccess is a permission that a module needs for a request which an API server has refused, and does not declare.
type UndeclaredAccess struct {
	// Module is the name of the module. If the module that has sent the request is unknown, it has the names of all
	// possible modules, joined by "or".
	Module string
	// Right is the permission, such as "watch namespaces".
	Right string
	// InHub says that the API server of the hub has refused the request: HubRules lack the permission, and not Rules.
	InHub bool
}

// String returns the problem and its fix.
func (u UndeclaredAccess) String() string {
	rules, command := "Rules", "hub register"
	if u.InHub {
		rules, command = "HubRules", "hub install"
	}
	return fmt.Sprintf("module %s does not declare %q in its %s: add it there and run %s again", u.Module, u.Right, rules, command)
}

// Undeclared returns the permissions that modules lacked in this process because they do not declare them, sorted.
func (r *Registry) Undeclared() []UndeclaredAccess { return r.undeclared.list() }

// undeclaredSet are the permissions that were found so far.
type undeclaredSet struct {
	mu    sync.Mutex // protects known
	known map[UndeclaredAccess]struct{}
}

// maxUndeclared bounds the set.
const maxUndeclared = 256

// add adds a permission, and reports whether it is new.
func (s *undeclaredSet) add(u UndeclaredAccess) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[u]; known || len(s.known) >= maxUndeclared {
		return false
	}
	if s.known == nil {
		s.known = map[UndeclaredAccess]struct{}{}
	}
	s.known[u] = struct{}{}
	return true
}

func (s *undeclaredSet) list() []UndeclaredAccess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.known), func(x, y UndeclaredAccess) int {
		return cmp.Or(cmp.Compare(x.Module, y.Module), cmp.Compare(x.String(), y.String()))
	})
}

// rulebook compares the refused requests of an App to the remote or to the hub with the rules that its modules declare.
type rulebook struct {
	modules catalog
	found   *undeclaredSet
	log     logr.Logger
	inHub   bool
	// senders are the modules that may have sent a request which carries no module.
	senders []string
}

// rulebookFor returns the rulebook for requests to the remote or to the hub. senders are the modules that may send a
// request which carries no module.
func (l *lifetime) rulebookFor(inHub bool, senders ...choice) *rulebook {
	b := &rulebook{modules: l.modules, found: &l.undeclared, log: l.log, inHub: inHub}
	for _, one := range senders {
		b.senders = append(b.senders, one.name)
	}
	return b
}

// judge inspects a response. If the request was refused for lack of a permission that the modules do not declare,
// judge adds this explanation to the informer that has sent the request.
func (b *rulebook) judge(r *http.Request, status int) {
	if b == nil || status != http.StatusForbidden {
		return
	}
	used, ok := useOf(r)
	if !ok {
		return
	}
	s, _ := transport.ObserverOf(r.Context()).(*boundcache.Informer)
	var found []UndeclaredAccess
	switch g := contain.GuardOf(r.Context()); {
	case s != nil:
		used.verbs = []string{"list", "watch"} // An informer needs both.
		for _, user := range s.Users() {
			found = append(found, b.lackedBy(used, user)...)
		}
		s.Explain(explanationOf(found))
	case g != nil:
		found = b.lackedBy(used, g.Module)
	default:
		found = b.lackedBy(used, b.senders...)
	}
	for _, u := range found {
		if b.found.add(u) {
			b.log.Info("A module lacks a permission that it does not declare", "problem", u.String())
		}
	}
}

// explanationOf returns why a request of an informer was refused; empty if the modules declare the permission.
func explanationOf(found []UndeclaredAccess) string {
	if len(found) == 0 {
		return ""
	}
	return found[0].String()
}

// lackedBy returns the permission for a request that all its possible senders lack.
func (b *rulebook) lackedBy(used use, senders ...string) []UndeclaredAccess {
	right := ""
	for _, name := range senders {
		entry := b.modules.find(name)
		if entry == nil {
			return nil
		}
		if right = used.undeclaredBy(entry.Module, b.inHub); right == "" {
			return nil
		}
	}
	if right == "" {
		return nil
	}
	return []UndeclaredAccess{{Module: strings.Join(senders, " or "), Right: right, InHub: b.inHub}}
}

// use is the access that a request needs: some verbs on one resource.
type use struct {
	verbs                      []string
	group, resource, namespace string
	name                       string // of the object; empty for a collection
}

// useOf returns the access that a request needs. It reports false for a request without a resource: every
// authenticated user may discover the APIs of a server.
func useOf(r *http.Request) (use, bool) {
	info := requestinfo.Of(r.URL.Path)
	if info.Resource == "" {
		return use{}, false
	}
	u := use{group: info.Group, namespace: info.Namespace, resource: info.Resource, name: info.Name}
	if info.Subresource != "" {
		u.resource += "/" + info.Subresource
	}
	u.verbs = verbsOf(r, info)
	if u.name == "" && r.Method != http.MethodPost {
		if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil {
			u.name, _ = selector.RequiresExactMatch("metadata.name")
		}
	}
	return u, true
}

// verbsOf returns the verbs that a request needs. To apply an object that does not exist needs create, too; a subresource
// exists with its object.
func verbsOf(r *http.Request, info requestinfo.Info) []string {
	named := info.Name != ""
	switch r.Method {
	case http.MethodPost:
		return []string{"create"}
	case http.MethodPut:
		return []string{"update"}
	case http.MethodPatch:
		if info.Subresource == "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return []string{"create", "patch"}
		}
		return []string{"patch"}
	case http.MethodDelete:
		if !named {
			return []string{"deletecollection"}
		}
		return []string{"delete"}
	}
	switch {
	case named:
		return []string{"get"}
	case transport.IsStream(r):
		return []string{"watch"}
	}
	return []string{"list"}
}

// undeclaredBy returns the permission that the module's rules for the remote or the hub lack, or nothing.
func (u use) undeclaredBy(m Module, inHub bool) string {
	declared, place := RemoteRules(m), ""
	if inHub {
		declared = nil
		for _, part := range HubRules(m) {
			if part.Namespace == "" || part.Namespace == u.namespace {
				declared = append(declared, part.Rules...)
			}
		}
		if len(m.HubNamespaces()) > 0 {
			place = cmp.Or(u.namespace, "all namespaces")
		}
	}
	right := rbacv1.PolicyRule{APIGroups: []string{u.group}, Resources: []string{u.resource}}
	var missing []string
	for _, verb := range u.verbs {
		right.Verbs, right.ResourceNames = []string{verb}, nil
		if u.name != "" {
			right.ResourceNames = []string{u.name}
		}
		if covered, _ := validation.Covers(declared, []rbacv1.PolicyRule{right}); !covered {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	right.Verbs, right.ResourceNames = []string{strings.Join(missing, " and ")}, nil
	return probe.DescribePermission(right, place)
}
