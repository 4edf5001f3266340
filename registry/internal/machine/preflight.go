// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Questions are the kinds and permissions that the modules need, in some namespaces, or in all without any.
type Questions struct {
	Kinds      []schema.GroupVersionKind
	Rules      []ModuleRules
	Namespaces []string
}

// ModuleRules are the permissions that a module declares.
type ModuleRules struct {
	Module string
	Rules  []rbacv1.PolicyRule
}

// PreflightResult is the result of a preflight, replaced and never changed. It leaves out questions whose requests failed, so
// that these stop no module.
type PreflightResult struct {
	Questions *Questions
	Served    map[schema.GroupVersionKind]bool
	Missing   map[string][]string // by module: the permissions that the module declares and the credentials lack
	Unknown   string              // why the permissions are unknown; empty if they are known
}

// Serves reports whether the remote serves a kind.
func (f *PreflightResult) Serves(kind schema.GroupVersionKind) bool {
	return f != nil && f.Served[kind]
}

// MissingFor returns the permissions that a module declares and the credentials lack.
func (f *PreflightResult) MissingFor(module string) []string {
	if f == nil {
		return nil
	}
	return f.Missing[module]
}

// Complete reports whether every kind is served and every permission is granted.
func (f *PreflightResult) Complete() bool {
	for _, kind := range f.Questions.Kinds {
		if !f.Served[kind] {
			return false
		}
	}
	return len(f.Missing) == 0 && f.Unknown == ""
}

// LostSince reports whether something is missing that was there before.
func (f *PreflightResult) LostSince(before *PreflightResult) bool {
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

// Keep adds earlier results for questions that this preflight could not answer.
func (f *PreflightResult) Keep(before *PreflightResult) {
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

// Equal reports whether two results have the same questions and the same findings.
func (f *PreflightResult) Equal(other *PreflightResult) bool {
	return other != nil && f.Questions == other.Questions && (f.Unknown == "") == (other.Unknown == "") &&
		maps.Equal(f.Served, other.Served) && maps.EqualFunc(f.Missing, other.Missing, slices.Equal)
}
