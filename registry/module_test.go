// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// scan is the configuration of a module for tests.
type scan struct {
	Size  int               `json:"size"`
	Paths []string          `json:"paths"`
	Marks map[string]string `json:"marks"`

	Targets []target `json:"targets"`
}

type target struct {
	Name     string `json:"name"`
	Insecure bool   `json:"insecure"`
}

func (s *scan) Validate() error {
	if s.Size < 0 {
		return errors.New("size is below zero")
	}
	return nil
}

func defaultScan() scan {
	return scan{Size: 1, Paths: []string{"/"}, Marks: map[string]string{"from": "default"}}
}

// scanner is a module that records the configuration that each app and the hub gets.
type scanner struct {
	mu  sync.Mutex
	got map[string]scan
}

func (s *scanner) module() registry.Module {
	return registry.NewModule("scanner", registry.ModuleOptions{
		Config:  registry.ConfigOf(defaultScan),
		Remote:  fx.Invoke(func(p registry.Remote, c scan) { s.note(fmt.Sprint(p.Name, "/", p.Status.Epoch), c) }),
		HubRuns: registry.WithRemotes,
		Hub:     fx.Invoke(func(c scan) { s.note("hub", c) }),
	})
}

func (s *scanner) note(where string, c scan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got == nil {
		s.got = map[string]scan{}
	}
	s.got[where] = c
}

func (s *scanner) expect(t testing.TB, where string, want scan) {
	t.Helper()
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		got, has := s.got[where]
		if diff := cmp.Diff(want, got); !has || diff != "" {
			return fmt.Errorf("the configuration of %s (-want +got):\n%s", where, diff)
		}
		return nil
	})
}

// The operator's configuration overrides the defaults, and the overrides for the remote override both. A label that
// changes the configuration replaces the app.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	var s scanner
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{s.module()}
		o.ModuleConfigs = []moduleconfig.Config{{
			Name:   "scanner",
			Config: json.RawMessage(`{"size": 10, "targets": [{"name": "a", "insecure": true}]}`),
			Overrides: []moduleconfig.Override{
				{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"paths": ["/edge"], "marks": {"edge": "yes"}}`)},
				{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"disk": "slow"}}, Config: json.RawMessage(`{"size": 2, "targets": [{"name": "b"}]}`)},
			},
		}}
	})
	config.Labels = map[string]string{"tier": "edge"}
	spawn(t, r, "edge", config)
	config.Labels = nil
	spawn(t, r, "plain", config)
	s.expect(t, "edge/1", scan{
		Size: 10, Paths: []string{"/edge"}, Marks: map[string]string{"from": "default", "edge": "yes"},
		Targets: []target{{Name: "a", Insecure: true}},
	})
	s.expect(t, "plain/2", scan{
		Size: 10, Paths: []string{"/"}, Marks: map[string]string{"from": "default"}, Targets: []target{{Name: "a", Insecure: true}},
	})

	config.Labels = map[string]string{"disk": "slow"}
	must(t, r.Ensure("plain", config))
	want := defaultScan()
	want.Size, want.Targets = 2, []target{{Name: "b"}} // not insecure: lists are replaced, not merged
	s.expect(t, "plain/3", want)
}

// The hub part of a module gets its configuration, too, without overrides, even if the selector of an override matches an
// empty set of labels.
func TestConfig_OfTheHub(t *testing.T) {
	t.Parallel()
	var s scanner
	unlabeled := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	o := registry.Options{ModuleConfigs: []moduleconfig.Config{{
		Name: "scanner", Config: json.RawMessage(`{"size": 7}`),
		Overrides: []moduleconfig.Override{{Selector: unlabeled, Config: json.RawMessage(`{"paths": ["/remote"]}`)}},
	}}}
	r, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), o, s.module().Option())
	must(t, err)
	run()
	want := defaultScan()
	want.Size = 7
	s.expect(t, "hub", want)
	_, config := remote(t, "one")
	spawn(t, r, "a", config)
	info, _ := r.Status("a")
	want.Paths = []string{"/remote"}
	s.expect(t, fmt.Sprint("a/", info.Epoch), want)
}
