// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/yamlfile"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

const (
	version = "config.clusterfx.dev/v1alpha1"
	// Kind is that of a configuration file.
	Kind = "HubConfiguration"
)

type configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Flags are those of run by name, without dashes. The command line takes precedence.
	Flags   map[string]flagValue  `json:"flags,omitempty"`
	Modules []moduleconfig.Config `json:"modules,omitempty"`
}

// flagValue is a text, number or bool, or a list of texts for a repeated flag.
type flagValue struct {
	values []string
	bad    error
}

func (v *flagValue) UnmarshalJSON(data []byte) error {
	*v = flagValue{values: []string{string(data)}}
	var err error
	switch data[0] {
	case '[':
		err = json.Unmarshal(data, &v.values)
	case '"':
		err = json.Unmarshal(data, &v.values[0])
	case '{', 'n':
		err = errFlagValue
	}
	if err != nil {
		v.bad = errFlagValue
	}
	return nil
}

var errFlagValue = errors.New("use a text, a number, true, false, or a list of texts")

type configurationFile struct {
	configuration
	file *yamlfile.File
	// flags from the file, with whether they took the values.
	flags map[string]bool
	// problems of the file itself, and of values.
	problems []error
}

// ReadText returns the text of a file.
func ReadText(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return text, nil
}

// parseConfiguration is strict, with lines. It fails only if there is nothing to read.
func parseConfiguration(path string, text []byte) (_ *configurationFile, err error) {
	c := &configurationFile{flags: map[string]bool{}}
	if c.file, err = yamlfile.Parse(path, text); err != nil {
		return nil, err
	}
	wrong := c.file.Check(c.configuration)
	if wrong != nil {
		_ = yaml.Unmarshal(text, &c.configuration) // Check has reported the error.
	} else if err := yaml.UnmarshalStrict(text, &c.configuration); err != nil {
		wrong = c.file.At("", err)
	}
	c.problems = append(c.problems, wrong,
		c.expect("apiVersion", c.APIVersion, version), c.expect("kind", c.Kind, Kind))
	return c, nil
}

func (c *configurationFile) expect(field, got, want string) error {
	if got == want {
		return nil
	}
	return c.file.At(field, fmt.Errorf("%s is %q; this hub reads %s", field, got, want))
}

// ConfigFlag names the file, which cannot name another.
const ConfigFlag = "config"

// setFlags leaves flags that the command line sets.
func (c *configurationFile) setFlags(set *pflag.FlagSet) {
	for name, value := range c.Flags {
		flag, err := set.Lookup(name), value.bad
		switch {
		case flag == nil || name == ConfigFlag:
			err = fmt.Errorf("there is no flag %q to set in a file; see run --help", name)
		case flag.Changed:
			continue
		}
		for i := 0; i < len(value.values) && err == nil; i++ {
			if bad := flag.Value.Set(value.values[i]); bad != nil {
				err = fmt.Errorf("%q: %w", value.values[i], arguments.ExplainValue(flag, bad))
			}
		}
		if c.flags[name] = err == nil; err != nil {
			c.problems = append(c.problems, c.file.At("flags."+name, fmt.Errorf("flags: %s: %w", name, err)))
		}
	}
}

var aboutFlag = regexp.MustCompile(`^--([a-z-]+)`)

// report joins all problems in the order of their lines.
func (c *configurationFile) report(err error) error {
	var all []error
	for _, problem := range c.problems {
		all = append(all, leaves(problem)...)
	}
	return yamlfile.Join(append(all, c.place(err)...)...)
}

// place adds the lines, and leaves out errors about a flag that did not accept its value.
func (c *configurationFile) place(err error) (placed []error) {
	for _, one := range leaves(err) {
		var module *moduleconfig.Error
		if flag := aboutFlag.FindStringSubmatch(one.Error()); flag != nil {
			taken, ours := c.flags[flag[1]]
			if ours && !taken {
				continue
			}
			if ours {
				one = c.file.At("flags."+flag[1], one)
			}
		} else if errors.As(one, &module) {
			one = c.file.At(c.fieldOf(module), one)
		}
		placed = append(placed, one)
	}
	return placed
}

func leaves(err error) []error {
	var many interface{ Unwrap() []error }
	if err == nil {
		return nil
	}
	if !errors.As(err, &many) {
		return []error{err}
	}
	var module *moduleconfig.Error
	if errors.As(err, &module) && !errors.As(errors.Join(many.Unwrap()...), &module) {
		return []error{err}
	}
	var all []error
	for _, one := range many.Unwrap() {
		all = append(all, leaves(one)...)
	}
	return all
}

// fieldMarks find fields in errors of decoders and modules.
var fieldMarks = regexp.MustCompile(`(?:field "|is not valid: )([A-Za-z0-9_.\[\]-]+)`)

func (c *configurationFile) fieldOf(err *moduleconfig.Error) string {
	field := fmt.Sprintf("modules[%d]", err.Config)
	if err.Override >= 0 {
		field += fmt.Sprintf(".overrides[%d]", err.Override)
	}
	if err.Field != "" {
		return field + "." + err.Field
	}
	if !c.file.Has(field + ".config") {
		return field
	}
	field += ".config"
	if mark := fieldMarks.FindStringSubmatch(err.Error()); mark != nil {
		field += "." + mark[1]
	}
	return field
}

// CheckText returns the flags of a hub with these modules and a configuration file, and an error with all its problems.
func CheckText(path string, text []byte, modules []registry.Module) (*Flags, error) {
	f := Bind(pflag.NewFlagSet("run", pflag.ContinueOnError), modules)
	f.file = path
	if err := f.parseFile(text); err != nil {
		return nil, err
	}
	return f, f.check()
}
