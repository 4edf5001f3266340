// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"cmp"
	"net/http"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Declaration is the permissions that a module declares.
type Declaration struct {
	// Remote has the rules of the registry itself, too.
	Remote []rbacv1.PolicyRule
	Hub    []rbac.NamespacedRules
	// Namespaces limit some or all of the rules for the hub.
	Namespaces []string
}

func (d Declaration) hubRules(namespace string) (rules []rbacv1.PolicyRule) {
	for _, part := range d.Hub {
		if part.Namespace == "" || part.Namespace == namespace {
			rules = append(rules, part.Rules...)
		}
	}
	return rules
}

// LacksToWatch returns the missing permission to get, list and watch a resource in a namespace of the hub, or in all
// for "". It is empty if none is missing.
func (d Declaration) LacksToWatch(resource schema.GroupResource, namespace string) string {
	needed := access{verbs: []string{"get", "list", "watch"}, group: resource.Group, resource: resource.Resource, namespace: namespace}
	return needed.undeclaredIn(d, true)
}

type access struct {
	verbs                      []string
	group, resource, namespace string
	name                       string // of the object; empty for a collection
}

// accessOf reports false without a resource: every authenticated user may discover the APIs.
func accessOf(r *http.Request) (access, bool) {
	info := requestinfo.Of(r.URL.Path)
	if info.Resource == "" {
		return access{}, false
	}
	a := access{group: info.Group, namespace: info.Namespace, resource: info.Resource, name: info.Name}
	if info.Subresource != "" {
		a.resource += "/" + info.Subresource
	}
	a.verbs = verbsOf(r, info)
	if a.name == "" && r.Method != http.MethodPost {
		if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil {
			a.name, _ = selector.RequiresExactMatch("metadata.name")
		}
	}
	return a, true
}

// verbsOf: applying an object that does not exist needs create, too. A subresource exists with its object.
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

// undeclaredIn returns what the rules lack, or "".
func (a access) undeclaredIn(d Declaration, inHub bool) string {
	declared, place := d.Remote, ""
	if inHub {
		declared = d.hubRules(a.namespace)
		if len(d.Namespaces) > 0 {
			place = cmp.Or(a.namespace, "all namespaces")
		}
	}
	right := rbacv1.PolicyRule{APIGroups: []string{a.group}, Resources: []string{a.resource}}
	var missing []string
	for _, verb := range a.verbs {
		right.Verbs, right.ResourceNames = []string{verb}, nil
		if a.name != "" {
			right.ResourceNames = []string{a.name}
		}
		if covered, _ := validation.Covers(declared, []rbacv1.PolicyRule{right}); !covered {
			missing = append(missing, verb)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	right.Verbs, right.ResourceNames = []string{listOf(missing)}, nil
	return probe.DescribePermission(right, place)
}

func listOf(verbs []string) string {
	last := len(verbs) - 1
	if last == 0 {
		return verbs[0]
	}
	return strings.Join(verbs[:last], ", ") + " and " + verbs[last]
}
