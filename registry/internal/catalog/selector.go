// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Selector selects the remotes that run a module; see registry.Selector.
type Selector struct {
	Labels                   labels.Selector
	OnRequest                bool
	Requires                 []schema.GroupVersionKind
	MinVersion, BelowVersion string
}

func (s Selector) check() error {
	for _, bound := range []string{s.MinVersion, s.BelowVersion} {
		if bound == "" {
			continue
		}
		if _, err := version.ParseGeneric(bound); err != nil {
			return fmt.Errorf("its selector has a bound that is not a version such as 1.30: %w", err)
		}
	}
	if s.MinVersion != "" && s.BelowVersion != "" &&
		!version.MustParseGeneric(s.MinVersion).LessThan(version.MustParseGeneric(s.BelowVersion)) {
		return fmt.Errorf("its selector matches no version of Kubernetes: %s", s.versions())
	}
	for _, kind := range s.Requires {
		if kind.Version == "" || kind.Kind == "" {
			return fmt.Errorf("its selector requires %q, which has no version or no kind", kind)
		}
	}
	return nil
}

// wants reads the names of spec.modules in c, nil if the field is not set.
func (s Selector) wants(name string, c *state.Desired) bool {
	if c.Modules != nil {
		return slices.Contains(c.Modules, name)
	}
	return !s.OnRequest && (s.Labels == nil || s.Labels.Matches(labels.Set(c.Labels)))
}

func (s Selector) fits(found string) (why string) {
	if s.MinVersion == "" && s.BelowVersion == "" {
		return ""
	}
	actual, err := version.ParseGeneric(found)
	if err != nil {
		return fmt.Sprintf("it is meant for Kubernetes %s, and the remote reports version %q", s.versions(), found)
	}
	tooOld := s.MinVersion != "" && actual.LessThan(version.MustParseGeneric(s.MinVersion))
	tooNew := s.BelowVersion != "" && actual.AtLeast(version.MustParseGeneric(s.BelowVersion))
	if tooOld || tooNew {
		return fmt.Sprintf("it is meant for Kubernetes %s, and the remote runs %s", s.versions(), found)
	}
	return ""
}

func (s Selector) versions() string {
	var bounds []string
	if s.MinVersion != "" {
		bounds = append(bounds, s.MinVersion+" or later")
	}
	if s.BelowVersion != "" {
		bounds = append(bounds, "before "+s.BelowVersion)
	}
	return strings.Join(bounds, " and ")
}
