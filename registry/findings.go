// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// questions are what a survey asks a remote on behalf of the modules that are wanted for it.
type questions struct {
	kinds      []schema.GroupVersionKind
	rules      []moduleRules
	namespaces []string
}

// moduleRules are the rights that a module declares.
type moduleRules struct {
	module string
	rules  []rbacv1.PolicyRule
}

// findings are what a survey of a remote has found. They are replaced, never changed. What could not be
// found out is not in them: nobody stops a module because a question was not answered.
type findings struct {
	of      *questions
	served  map[schema.GroupVersionKind]bool
	lacking map[string][]string // by module: the rights that it declares and the credentials do not have
	unasked string              // why the remote could not be asked for rights
}

// serves reports whether the remote serves a kind.
func (f *findings) serves(kind schema.GroupVersionKind) bool { return f != nil && f.served[kind] }

func (f *findings) rightsMissingFor(module string) []string {
	if f == nil {
		return nil
	}
	return f.lacking[module]
}

// complete reports whether nothing is missing that was asked for.
func (f *findings) complete() bool {
	for _, kind := range f.of.kinds {
		if !f.served[kind] {
			return false
		}
	}
	return len(f.lacking) == 0 && f.unasked == ""
}

// lost reports whether something is missing that was there before.
func (f *findings) lost(before *findings) bool {
	if before == nil {
		return false
	}
	for kind, was := range before.served {
		if now, asked := f.served[kind]; was && asked && !now {
			return true
		}
	}
	for module, missing := range f.lacking {
		if had := before.lacking[module]; before.unasked == "" && len(missing) > len(had) {
			return true
		}
	}
	return false
}

// keep fills in what was found out before, and could not be found out this time.
func (f *findings) keep(before *findings) {
	if before == nil {
		return
	}
	for kind, was := range before.served {
		if _, known := f.served[kind]; !known && slices.Contains(f.of.kinds, kind) {
			f.served[kind] = was
		}
	}
	if f.unasked != "" && before.of == f.of {
		f.lacking = before.lacking
	}
}

func (f *findings) equals(other *findings) bool {
	return other != nil && f.of == other.of && (f.unasked == "") == (other.unasked == "") &&
		maps.Equal(f.served, other.served) && maps.EqualFunc(f.lacking, other.lacking, slices.Equal)
}
