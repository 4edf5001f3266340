// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// Book has the rules of a hub, with overrides for Clusters by labels. The zero Book has none.
type Book struct {
	config    Config
	base      []Rule // of config
	overrides []override
}

type override struct {
	clusters     labels.Selector
	hasRules     bool // replace those before
	rules        []Rule
	abandonAfter *string
}

// NewBook fails for an override that cannot be decoded.
func NewBook(base Config, overrides []moduleconfig.Override) (Book, error) {
	b := Book{config: base, base: base.Complete()}
	for _, o := range overrides {
		one, err := decode(o)
		if err != nil {
			return Book{}, fmt.Errorf("decode an override of the rules: %w", err)
		}
		b.overrides = append(b.overrides, one)
	}
	return b, nil
}

func decode(o moduleconfig.Override) (override, error) {
	var c struct {
		Rules        json.RawMessage `json:"rules"` // null replaces the rules by none
		AbandonAfter *string         `json:"abandonAfter"`
	}
	if len(o.Config) > 0 {
		if err := json.Unmarshal(o.Config, &c); err != nil {
			return override{}, err
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&o.Selector)
	if err != nil {
		return override{}, err
	}
	one := override{clusters: selector, abandonAfter: c.AbandonAfter, hasRules: c.Rules != nil}
	if !one.hasRules {
		return one, nil
	}
	var list []Rule
	if err := json.Unmarshal(c.Rules, &list); err != nil {
		return override{}, err
	}
	one.rules = Config{Rules: list}.Complete()
	return one, nil
}

// Of returns the rules of a Cluster with these labels: the last override that has rules replaces all others.
func (b Book) Of(cluster map[string]string) []Rule {
	found := b.base
	for _, o := range b.overrides {
		if o.hasRules && o.clusters.Matches(labels.Set(cluster)) {
			found = o.rules
		}
	}
	return found
}

// All returns the rules of all Clusters, one of several lists several times.
func (b Book) All() []Rule {
	all := slices.Clone(b.base)
	for _, o := range b.overrides {
		all = append(all, o.rules...)
	}
	return all
}

// Abandon returns how long such a Cluster may be away, and false for no limit.
func (b Book) Abandon(cluster map[string]string) (time.Duration, bool) {
	c := b.config
	for _, o := range b.overrides {
		if o.abandonAfter != nil && o.clusters.Matches(labels.Set(cluster)) {
			c.AbandonAfter = *o.abandonAfter
		}
	}
	return c.Abandon()
}
