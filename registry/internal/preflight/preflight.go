// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Questions are what a survey asks a remote on behalf of the modules that are wanted for it.
type Questions struct {
	Kinds      []schema.GroupVersionKind
	Rules      []ModuleRules
	Namespaces []string
}

// ModuleRules are the rights that a module declares.
type ModuleRules struct {
	Module string
	Rules  []rbacv1.PolicyRule
}

// Result are what a survey of a remote has found. They are replaced, never changed. What could not be
// found out is not in them: nobody stops a module because a question was not answered.
type Result struct {
	Questions *Questions
	Served    map[schema.GroupVersionKind]bool
	Missing   map[string][]string // by module: the rights that it declares and the credentials do not have
	Unknown   string              // why the remote could not be asked for rights
}

// Serves reports whether the remote serves a kind.
func (f *Result) Serves(kind schema.GroupVersionKind) bool { return f != nil && f.Served[kind] }

func (f *Result) MissingFor(module string) []string {
	if f == nil {
		return nil
	}
	return f.Missing[module]
}

// Complete reports whether nothing is missing that was asked for.
func (f *Result) Complete() bool {
	for _, kind := range f.Questions.Kinds {
		if !f.Served[kind] {
			return false
		}
	}
	return len(f.Missing) == 0 && f.Unknown == ""
}

// LostSince reports whether something is missing that was there before.
func (f *Result) LostSince(before *Result) bool {
	if before == nil {
		return false
	}
	for kind, was := range before.Served {
		if now, asked := f.Served[kind]; was && asked && !now {
			return true
		}
	}
	for module, missing := range f.Missing {
		if had := before.Missing[module]; before.Unknown == "" && len(missing) > len(had) {
			return true
		}
	}
	return false
}

// Keep fills in what was found out before, and could not be found out this time.
func (f *Result) Keep(before *Result) {
	if before == nil {
		return
	}
	for kind, was := range before.Served {
		if _, known := f.Served[kind]; !known && slices.Contains(f.Questions.Kinds, kind) {
			f.Served[kind] = was
		}
	}
	if f.Unknown != "" && before.Questions == f.Questions {
		f.Missing = before.Missing
	}
}

func (f *Result) Equal(other *Result) bool {
	return other != nil && f.Questions == other.Questions && (f.Unknown == "") == (other.Unknown == "") &&
		maps.Equal(f.Served, other.Served) && maps.EqualFunc(f.Missing, other.Missing, slices.Equal)
}
