// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
)

const configHead = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"

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

// config validate checks a file without a cluster, including the values of flags and the configuration of modules, and
// names the file and the field of each problem. run reports the same problem.
func TestConfig_Validate(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	module := registry.NewModule("quota", registry.ModuleOptions{
		Remote: fx.Invoke(func(configured) {}), Config: registry.ConfigOf(func() configured { return configured{} }),
	})
	path := filepath.Join(t.TempDir(), "hub.yaml")
	validate := func(text, command string) (int, string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
		var out bytes.Buffer
		args := append([]string{"hub"}, strings.Fields(command+path)...)
		code := Execute(t.Context(), Program{Args: args, Stdout: &out, Stderr: &out, Modules: []registry.Module{module}})
		return code, out.String()
	}
	right := configHead + "flags: {concurrency: 7}\nmodules:\n- name: quota\n  config: {pods: 3, name: {first: a}}\n"
	if code, out := validate(right, "config validate "); code != 0 || out != path+" is right\n" {
		t.Errorf("a valid file: exit code %d, %s", code, out)
	}
	for text, want := range map[string]string{
		configHead + "flags:\n  log-level: info\n  concurrency: 0\n":                                                             ": --concurrency=0: use 1 or more",
		configHead + "flags:\n  log-level: loud\n":                                                                               `: flags: log-level: "loud": use `,
		configHead + "modules:\n- name: other\n":                                                                                 ": this hub has no module \"other\"; it has quota",
		configHead + "modules:\n- name: quota\n- name: quota\n":                                                                  ": module \"quota\" is configured twice",
		configHead + "modules:\n- name: quota\n  config:\n    pods: 1\n    pots: 2\n":                                            `: module "quota": `,
		configHead + "modules:\n- name: quota\n  config:\n    pods: 1\n    name:\n      fist: a\n":                               `: module "quota": `,
		configHead + "modules:\n- name: quota\n  config:\n    name: {first: a}\n    pods: many\n":                                `: module "quota": `,
		configHead + "modules:\n- name: quota\n  config:\n    name: {first: a}\n    pods: -1\n":                                  ": module \"quota\": the configuration is not valid: pods: use 0 or more",
		configHead + "modules:\n- name: quota\n  overrides:\n  - selector: {matchLabels: {a: b}}\n    config:\n      pods: -1\n": ": module \"quota\": overrides[0]: ",
		configHead + "modules:\n- name: quota\n  overrides:\n  - config: {pods: 1}\n":                                            ": module \"quota\": overrides[0]: it has no selector",
		configHead + "flags:\n  concurrency: 0\nmodules:\n- name: other\n":                                                       ": this hub has no module \"other\"",
	} {
		for _, command := range []string{"config validate ", "run --config="} {
			if code, out := validate(text, command); code != 1 || !strings.Contains(out, path+want) {
				t.Errorf("%s, %q: %d, %s, want %s", command, text, code, out, want)
			}
		}
	}
}

// All problems of a file are reported, each with the file and the field: problems of the
// structure, of flags, and of every module, including values of a wrong type. A wrong value of a flag is reported once,
// and so is a problem that an override inherits. Files are reported in the order of the arguments.
func TestConfig_EveryProblem(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("good.yaml", configHead)
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
	want := `bad.yaml: duplicate field "modules[2].name" in line 23
bad.yaml: unknown field "modules[0].confg"
bad.yaml: kind is "HubConfigration"; this hub reads HubConfiguration
bad.yaml: flags: concurency: there is no flag "concurency" to set in a file; see run --help
bad.yaml: flags: concurrency: "many": use a whole number
bad.yaml: flags: log-level: "loud": use debug, info or error
bad.yaml: --max-concurrent-starts=0: use 1 or more
bad.yaml: this hub has no module "other"; it has quota
bad.yaml: module "quota": decode the configuration into command.configured: field "name.first": use a value of type string, not of type number
bad.yaml: module "quota": decode the configuration into command.configured: field "pods": use a value of type int64, not of type string
bad.yaml: module "quota": decode the configuration into command.configured: unknown field "pots"
bad.yaml: module "quota": overrides[0]: it has no selector; move a configuration for all remotes to config
bad.yaml: module "quota": overrides[1]: decode the configuration into command.configured: field "pods": use a value of type int64, not of type array
bad.yaml: module "quota": overrides[1]: decode the configuration into command.configured: unknown field "pots"
bad.yaml: module "quota" is configured twice; remove one
bad.yaml: this hub has no module "nameless"; it has quota
`
	var out bytes.Buffer
	hub := func(args ...string) (int, string) {
		out.Reset()
		module := registry.NewModule("quota", registry.ModuleOptions{
			Remote: fx.Invoke(func(configured) {}), Config: registry.ConfigOf(func() configured { return configured{} }),
		})
		code := Execute(t.Context(), Program{
			Args: append([]string{"hub"}, args...), Stdout: &out, Stderr: &out, Modules: []registry.Module{module},
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
