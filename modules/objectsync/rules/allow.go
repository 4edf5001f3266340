// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// ErrNotAllowed means that the operator's configuration allows no such rule.
var ErrNotAllowed = errors.New("the configuration of the hub allows no such rule")

// Allow says which rules the hub follows: those that one of the entries allows, and without entries all. What gives permissions in a
// cluster, and namespaces of Kubernetes, are allowed only by an entry that names them.
type Allow []Allowed

// Allowed allows rules. An empty list allows all but what has to be named.
type Allowed struct {
	// From is the source. Default: both.
	From hubv1.SyncSource `json:"from,omitempty"`
	// Kinds are kinds with their group, such as Secret, Deployment.apps, or *.example.com for all of a group.
	Kinds []string `json:"kinds,omitempty"`
	// HubNamespaces and RemoteNamespaces are names, or beginnings of names, as in tenant-*.
	HubNamespaces    []string `json:"hubNamespaces,omitempty"`
	RemoteNamespaces []string `json:"remoteNamespaces,omitempty"`
}

// Check wraps ErrNotAllowed for a rule that the hub must not follow.
func (a Allow) Check(r Rule) error {
	if len(a) == 0 {
		a = Allow{{}}
	}
	var why error
	for _, one := range a {
		if why = one.check(r); why == nil {
			return nil
		}
	}
	if len(a) > 1 {
		return fmt.Errorf("%w: no entry of allow has its direction, kind and namespaces", ErrNotAllowed)
	}
	return why
}

func (a Allowed) check(r Rule) error {
	hub, remote := r.SourceNamespaces(clusterName), r.TargetNamespaces(clusterName) // None if labels select them.
	if r.From == hubv1.SyncFromRemote {
		hub, remote = remote, hub
	}
	switch {
	case a.From != "" && a.From != r.From:
		return fmt.Errorf("%w: from %s", ErrNotAllowed, r.From)
	case !a.hasKind(r):
		return fmt.Errorf("%w: the kind %s", ErrNotAllowed, r.GVK().GroupKind())
	case !r.IsNamespaced():
		return nil
	}
	if name, ok := covered(a.HubNamespaces, hub); !ok {
		return fmt.Errorf("%w: %s of the hub", ErrNotAllowed, name)
	}
	if name, ok := covered(a.RemoteNamespaces, remote); !ok {
		return fmt.Errorf("%w: %s of remotes", ErrNotAllowed, name)
	}
	return nil
}

func (a Allowed) hasKind(r Rule) bool {
	kind := r.GVK().GroupKind()
	if slices.Contains(a.Kinds, kind.String()) || slices.Contains(a.Kinds, "*."+kind.Group) {
		return true
	}
	return (len(a.Kinds) == 0 || slices.Contains(a.Kinds, "*")) && !slices.Contains(sensitive(), kind.Group)
}

// sensitive are groups whose objects give permissions, or change what an API server accepts.
func sensitive() []string {
	return []string{"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "certificates.k8s.io", hubv1.GroupName}
}

// covered returns the first namespace that no pattern covers. Selections by labels need an empty list, or a star; they never select a
// namespace of Kubernetes.
func covered(patterns, namespaces []string) (first string, ok bool) {
	if len(namespaces) == 0 {
		return "namespaces by labels", len(patterns) == 0 || slices.Contains(patterns, "*")
	}
	i := slices.IndexFunc(namespaces, func(name string) bool {
		if isOfKubernetes(name) {
			return !slices.Contains(patterns, name)
		}
		return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return pattern == name || open && strings.HasPrefix(name, prefix)
		})
	})
	if i < 0 {
		return "", true
	}
	return "the namespace " + namespaces[i], false
}

func (a Allow) problems() problems {
	var p problems
	for i, one := range a {
		p.refuse(one.From != "" && one.From != hubv1.SyncFromHub && one.From != hubv1.SyncFromRemote, "allow[%d].from: use Hub or Remote, or leave it out for both", i)
		for _, kind := range one.Kinds {
			p.refuse(kind == "" || strings.Contains(kind, "/"), "allow[%d].kinds: %q: write a kind with its group, such as Secret, Deployment.apps or *.example.com", i, kind)
		}
		for _, pattern := range slices.Concat(one.HubNamespaces, one.RemoteNamespaces) {
			p.refuse(pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*"),
				"allow[%d]: %q: write the name of a namespace, or its beginning, such as tenant-*", i, pattern)
		}
	}
	return p
}
