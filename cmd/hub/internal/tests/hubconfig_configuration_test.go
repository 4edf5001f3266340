// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/fx"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// optionsOf returns the options of a hub with these arguments, whose cluster is never asked.
func optionsOf(t *testing.T, args ...string) (process.Options, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*kubeconfigOf("hub"), path))
	module := registry.NewModule("inventory", registry.ModuleOptions{
		Remote: fx.Invoke(func(map[string]string) {}), Config: registry.ConfigOf(func() map[string]string { return nil }),
	})
	f, err := hubconfig.Parse(append(args, "--kubeconfig="+path), []registry.Module{module})
	if err != nil {
		return process.Options{}, err
	}
	return f.Complete(io.Discard)
}

const head = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"

// The command line takes precedence over the file, and the file over the default.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hub.yaml")
	must(t, os.WriteFile(path, []byte(head+`
flags:
  concurrency: 7
  max-objects-per-cluster: 1000
  impersonate-apps: true
  remove-timeout: 12s
  allow-cidr: [10.0.0.0/8, 127.0.0.0/8]
modules:
- name: inventory
  config: {interval: 30s}
  overrides:
  - selector: {matchLabels: {tier: edge}}
    config: {interval: 5m}
`), 0o600))
	o, err := optionsOf(t, "--max-objects-per-cluster=5", "--config="+path)
	must(t, err)
	if o.Concurrency != 7 || !o.Registry.Impersonate || o.RemoveWithin.String() != "12s" || len(o.Registry.Policy.AllowCIDRs) != 2 {
		t.Errorf("the options lack values of the file: %+v", o)
	}
	if o.Registry.Limits.MaxObjects != 5 || o.Registry.Limits.Starts != 64 {
		t.Errorf("max-objects-per-cluster=%d, max-concurrent-starts=%d; want 5 from the command line, 64 by default",
			o.Registry.Limits.MaxObjects, o.Registry.Limits.Starts)
	}
	configs := o.Registry.ModuleConfigs
	if len(configs) != 1 || string(configs[0].Config) != `{"interval":"30s"}` || len(configs[0].Overrides) != 1 ||
		configs[0].Overrides[0].Selector.MatchLabels["tier"] != "edge" || string(configs[0].Overrides[0].Config) != `{"interval":"5m"}` {
		t.Errorf("modules: %+v", configs)
	}
}

// The error for a wrong file names the field by its path.
func TestConfiguration_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                         `apiVersion is ""; this hub reads config.clusterfx.dev/v1alpha1`,
		"apiVersion: v1\nkind: ConfigMap":          "kind is \"ConfigMap\"",
		head + "modles: []":                        `unknown field "modles"`,
		head + "kind: HubConfiguration":            `duplicate field "kind" in line 3`,
		head + "flags: {concurency: 1}":            `flags: concurency: there is no flag "concurency"`,
		head + "flags: {config: a.yaml}":           `flags: config: there is no flag "config"`,
		head + "flags:\n  concurrency: many":       `flags: concurrency: "many": use a whole number`,
		head + "flags: {concurrency: {a: b}}":      "flags: concurrency: use a text, a number",
		head + "flags: {allow-cidr: [10.1.2.3/8]}": "did you mean 10.0.0.0/8?",
		head + "flags: 1":                          "cannot unmarshal number into Go struct field configuration.flags of type map",
		head + "modules: [{name: a, confg: {}}]":   `unknown field "modules[0].confg"`,
		head + "modules:\n- name: a\n  overrides:\n  - config: 1\n    selectr: {}": `unknown field "modules[0].overrides[0].selectr"`,
		head + "modules: [{name: a, config: {b: [{c: 1, c: 2}]}}]":                 `duplicate field "modules[0].config.b[0].c" in line 3`,
		head + "---\n" + head:          "line 3: a second YAML document begins here",
		head + "flags:\n  a: b\n c: d": "this is not YAML: line ",
		"\t":                           "this is not YAML",
	} {
		_, err := hubconfig.CheckText("hub.yaml", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), "hub.yaml: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want the file and %q", text, err, want)
		}
	}
	testkit.ErrorHas(t, testkit.Err(optionsOf(t, "--config="+filepath.Join(t.TempDir(), "none.yaml"))), "none.yaml", "the error for a missing file")
}
