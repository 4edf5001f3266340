// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
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
	f := newFlags(set, nil)
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

// What is wrong with a file is said with the line.
func TestConfiguration_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                         `:1: apiVersion is ""; this hub reads config.clusterfx.dev/v1alpha1`,
		"apiVersion: v1\nkind: ConfigMap":          ":2: kind is \"ConfigMap\"",
		head + "modles: []":                        ":3: modles: there is no such field; use apiVersion, flags, kind, modules",
		head + "kind: HubConfiguration":            ":3: kind: it is there twice, see line 2",
		head + "flags: {concurency: 1}":            `:3: flags: concurency: there is no flag "concurency"`,
		head + "flags: {config: a.yaml}":           `:3: flags: config: there is no flag "config"`,
		head + "flags:\n  concurrency: many":       `:4: flags: concurrency: "many": use a whole number`,
		head + "flags: {concurrency: {a: b}}":      ":3: flags: concurrency: use a text, a number",
		head + "flags: {allow-cidr: [10.1.2.3/8]}": "did you mean 10.0.0.0/8?",
		head + "flags: 1":                          ":3: flags: use fields with values here",
		head + "modules: [{name: a, confg: {}}]":   ":3: modules[0].confg: there is no such field; use config, name, overrides",
		head + "modules:\n- name: a\n  overrides:\n  - config: 1\n    selectr: {}": ":7: modules[0].overrides[0].selectr: there is no such field",
		head + "---\n" + head:          ":3: a second YAML document begins here",
		head + "flags:\n  a: b\n c: d": ":4: this is not YAML: ",
		"\t":                           "hub.yaml:1: this is not YAML",
	} {
		f, err := withFile(t, text)
		if err == nil {
			err = f.check()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hub.yaml:") {
			t.Errorf("%q: %v, want the file and %q", text, err, want)
		}
	}
	f := newFlags(pflag.NewFlagSet("run", pflag.ContinueOnError), nil)
	f.file = filepath.Join(t.TempDir(), "none.yaml")
	if err := f.readFile(); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// configured is a module with a configuration.
type configured struct {
	Pods int64 `json:"pods"`
	Name struct {
		First string `json:"first"`
	} `json:"name"`
}

func (c *configured) Validate() error {
	if c.Pods < 0 {
		return errors.New("pods: use 0 or more")
	}
	return nil
}

// The command config validate checks a file without a cluster: also values of flags that only the hub looks at, and the
// configuration of modules. It names the file and the line of each problem. The command run says the same.
func TestConfig_Validate(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	module := registry.NewModule("quota", registry.ModuleOptions{
		Remote: fx.Invoke(func(configured) {}), Config: registry.ConfigOf(func() configured { return configured{} }),
	})
	path := filepath.Join(t.TempDir(), "hub.yaml")
	validate := func(text, command string) (int, string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		args := append([]string{"hub"}, strings.Fields(command+path)...)
		code := execute(t.Context(), program{args: args, stdout: &out, stderr: &out, modules: []registry.Module{module}})
		return code, out.String()
	}
	right := head + "flags: {concurrency: 7}\nmodules:\n- name: quota\n  config: {pods: 3, name: {first: a}}\n"
	if code, out := validate(right, "config validate "); code != 0 || out != path+" is right\n" {
		t.Errorf("a file that is right: %d, %s", code, out)
	}
	for text, want := range map[string]string{
		head + "flags:\n  log-level: info\n  concurrency: 0\n":                                                             ":5: --concurrency=0: use 1 or more",
		head + "flags:\n  log-level: loud\n":                                                                               ":4: --log-level: ",
		head + "modules:\n- name: other\n":                                                                                 ":4: this hub has no module \"other\"; it has quota",
		head + "modules:\n- name: quota\n- name: quota\n":                                                                  ":5: module \"quota\" is configured twice",
		head + "modules:\n- name: quota\n  config:\n    pods: 1\n    pots: 2\n":                                            `:7: module "quota": `,
		head + "modules:\n- name: quota\n  config:\n    pods: 1\n    name:\n      fist: a\n":                               `:8: module "quota": `,
		head + "modules:\n- name: quota\n  config:\n    name: {first: a}\n    pods: many\n":                                `:7: module "quota": `,
		head + "modules:\n- name: quota\n  config:\n    name: {first: a}\n    pods: -1\n":                                  ":7: module \"quota\": the configuration is not valid: pods: use 0 or more",
		head + "modules:\n- name: quota\n  overrides:\n  - selector: {matchLabels: {a: b}}\n    config:\n      pods: -1\n": ":8: module \"quota\": overrides[0]: ",
		head + "modules:\n- name: quota\n  overrides:\n  - config: {pods: 1}\n":                                            ":6: module \"quota\": overrides[0]: it has no selector",
		head + "flags:\n  concurrency: 0\nmodules:\n- name: other\n":                                                       ":6: this hub has no module \"other\"",
	} {
		for _, command := range []string{"config validate ", "run --config="} {
			if code, out := validate(text, command); code != 1 || !strings.Contains(out, path+want) {
				t.Errorf("%s, %q: %d, %s, want %s", command, text, code, out, want)
			}
		}
	}
}

// All problems of a file are reported in the order of their lines, each with the file and the line: of the structure, of
// flags, and of every module, also if a value is of another type. A flag that refuses its value is reported once, and so
// is what an override inherits. Files are reported in the order of the arguments.
func TestConfig_EveryProblem(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.yaml", head)
	write("bad.yaml", `apiVersion: config.clusterfx.dev/v1alpha1
kind: HubConfigration
flags:
  concurency: 3
  concurrency: many
  max-concurrent-starts: 0
  log-level: loud
modules:
- name: other
  confg: {}
- name: quota
  config:
    pods: many
    name: {first: 1}
    pots: 2
  overrides:
  - config: {pods: 1}
  - selector: {matchLabels: {a: b}}
    config:
      pods: [1]
      pots: 3
- name: quota
  name: quota
- name: nameless
`)
	want := `bad.yaml:2: kind is "HubConfigration"; this hub reads HubConfiguration
bad.yaml:4: flags: concurency: there is no flag "concurency" to set in a file; see run --help
bad.yaml:5: flags: concurrency: "many": use a whole number
bad.yaml:6: --max-concurrent-starts=0: use 1 or more
bad.yaml:7: --log-level: unknown log level "loud": use debug, info, error
bad.yaml:9: this hub has no module "other"; it has quota
bad.yaml:10: modules[0].confg: there is no such field; use config, name, overrides
bad.yaml:13: module "quota": decode the configuration into app.configured: field "pods": use a value of type int64, not of type string
bad.yaml:14: module "quota": decode the configuration into app.configured: field "name.first": use a value of type string, not of type number
bad.yaml:15: module "quota": decode the configuration into app.configured: unknown field "pots"
bad.yaml:17: module "quota": overrides[0]: it has no selector; what holds for all remotes goes into config
bad.yaml:20: module "quota": overrides[1]: decode the configuration into app.configured: field "pods": use a value of type int64, not of type array
bad.yaml:21: module "quota": overrides[1]: decode the configuration into app.configured: unknown field "pots"
bad.yaml:22: module "quota" is configured twice; remove one
bad.yaml:23: modules[2].name: it is there twice, see line 22; remove one
bad.yaml:24: this hub has no module "nameless"; it has quota
`
	var out bytes.Buffer
	hub := func(args ...string) (int, string) {
		out.Reset()
		module := registry.NewModule("quota", registry.ModuleOptions{
			Remote: fx.Invoke(func(configured) {}), Config: registry.ConfigOf(func() configured { return configured{} }),
		})
		code := execute(t.Context(), program{
			args: append([]string{"hub"}, args...), stdout: &out, stderr: &out, modules: []registry.Module{module},
		})
		return code, out.String()
	}
	for _, args := range [][]string{{"config", "validate", "bad.yaml"}, {"run", "--config=bad.yaml"}, {"dev", "--config=bad.yaml"}} {
		code, got := hub(args...)
		got = strings.TrimPrefix(strings.TrimPrefix(got, "Error: "), "error: ") // of run and dev
		if diff := cmp.Diff(want, got); code != 1 || diff != "" {
			t.Errorf("hub %v: %d (-want +got):\n%s", args, code, diff)
		}
	}
	order := "read the configuration: open nothere.yaml: no such file or directory\ngood.yaml is right\n" + want + "good.yaml is right\n"
	code, got := hub("config", "validate", "nothere.yaml", "good.yaml", "bad.yaml", "good.yaml")
	if diff := cmp.Diff(order, got); code != 1 || diff != "" {
		t.Errorf("several files: %d (-want +got):\n%s", code, diff)
	}
}
