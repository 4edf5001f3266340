// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Configure checks and stores the operator's configuration of the modules, and returns all problems.
func (all Catalog) Configure(configs []moduleconfig.Config) []error {
	var problems []error
	seen := map[string]bool{}
	for _, c := range configs {
		known := all.Find(c.Name)
		switch {
		case known == nil:
			problems = append(problems, fmt.Errorf("this hub has no module %q; it has %s", c.Name, all.names()))
		case seen[c.Name]:
			problems = append(problems, fmt.Errorf("module %q is configured twice; remove one", c.Name))
		default:
			problems = append(problems, known.configure(c)...)
		}
		seen[c.Name] = true
	}
	return problems
}

func (e *Item) configure(c moduleconfig.Config) (problems []error) {
	report := func(err error) { problems = append(problems, errorIn(c.Name, err)) }
	e.base, e.deletes = c.Config, c.Deletes
	if err := e.selectBy(c.Clusters); err != nil {
		report(err)
	}
	if c.Deletes.PerTarget < 0 || c.Deletes.PerFleet < 0 {
		report(errNegative)
	}
	ofBase := joined(e.checkConfig(e.scheme, e.base))
	for _, problem := range ofBase {
		report(problem)
	}
	for i, o := range c.Overrides {
		selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
		switch {
		case len(o.Selector.MatchLabels)+len(o.Selector.MatchExpressions) == 0:
			report(fmt.Errorf("overrides[%d]: it has no selector; move a configuration for all remotes to config", i))
		case err != nil:
			report(fmt.Errorf("overrides[%d]: %w", i, err))
		}
		for _, problem := range without(joined(e.checkConfig(e.scheme, e.base, o.Config)), ofBase) {
			report(fmt.Errorf("overrides[%d]: %w", i, problem))
		}
		if o.Deletes.PerTarget < 0 || o.Deletes.PerFleet < 0 {
			report(fmt.Errorf("overrides[%d]: %w", i, errNegative))
		}
		e.overrides = append(e.overrides, override{selector, o.Config, o.Deletes})
	}
	return problems
}

// selectBy does nothing for nil.
func (e *Item) selectBy(clusters *metav1.LabelSelector) error {
	if clusters == nil {
		return nil
	}
	if e.Remote == nil {
		return errors.New("clusters: the module has no remote part, so no remote runs it; remove the field")
	}
	selector, err := metav1.LabelSelectorAsSelector(clusters)
	if err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	e.Select.Labels, e.Select.OnRequest = selector, false
	return nil
}

// DeleteLimits returns the limits of the deletes of the module in a target with these labels.
func (e *Item) DeleteLimits(labels map[string]string) deletes.Limits {
	limits := e.Deletes
	merge(&limits, e.deletes)
	for _, i := range e.overridesFor(labels) {
		merge(&limits, e.overrides[i].deletes)
	}
	return limits
}

func merge(limits *deletes.Limits, over moduleconfig.Deletes) {
	limits.PerTarget, limits.PerFleet = cmp.Or(over.PerTarget, limits.PerTarget), cmp.Or(over.PerFleet, limits.PerFleet)
}

// joined returns the errors of errors.Join, or the one error that it is given.
func joined(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { // no errors.As: errors below a wrapped error belong to it
		return many.Unwrap()
	}
	return []error{err}
}

// without drops problems that are in before, by their texts: an inherited problem is reported once.
func without(problems, before []error) []error {
	before = slices.Clone(before)
	return slices.DeleteFunc(slices.Clone(problems), func(problem error) bool {
		i := slices.IndexFunc(before, func(known error) bool { return known.Error() == problem.Error() })
		if i >= 0 {
			before = slices.Delete(before, i, i+1)
		}
		return i >= 0
	})
}
