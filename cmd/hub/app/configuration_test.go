// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// withFile returns the flags of a hub that is run with a configuration file.
func withFile(t *testing.T, text string, args ...string) (*flags, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hub.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	f := newFlags(program{}, set)
	if err := set.Parse(append(args, "--config="+path)); err != nil {
		t.Fatal(err)
	}
	return f, f.readFile()
}

const head = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"

// The command line goes before the file, the file before the default.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	f, err := withFile(t, head+`
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
`, "--max-objects-per-cluster=5")
	if err != nil {
		t.Fatal(err)
	}
	o := f.options
	if o.Concurrency != 7 || !o.Registry.Impersonate || o.RemoveWithin.String() != "12s" || len(o.Registry.Policy.AllowCIDRs) != 2 {
		t.Errorf("the file was not taken in: %+v", o)
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

func TestConfiguration_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                         "apiVersion is \"\"",
		"apiVersion: v1\nkind: ConfigMap":          "apiVersion is \"v1\" and kind \"ConfigMap\"",
		head + "modles: []":                        "modles",
		head + "kind: HubConfiguration":            "kind",
		head + "flags: {concurency: 1}":            `there is no flag "concurency"`,
		head + "flags: {config: a.yaml}":           `there is no flag "config"`,
		head + "flags: {concurrency: many}":        `concurrency: "many"`,
		head + "flags: {concurrency: {a: b}}":      "a text, a number",
		head + "flags: {allow-cidr: [10.1.2.3/8]}": "did you mean 10.0.0.0/8?",
		head + "modules: [{name: a, confg: {}}]":   "confg",
		head + "modules: [{name: a, overrides: [{config: 1, selectr: {}}]}]": "selectr",
		"\t": "--config=",
	} {
		if _, err := withFile(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hub.yaml") {
			t.Errorf("%q: %v, want the file and %q", text, err, want)
		}
	}
	f := newFlags(program{}, pflag.NewFlagSet("run", pflag.ContinueOnError))
	f.file = filepath.Join(t.TempDir(), "none.yaml")
	if err := f.readFile(); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}
