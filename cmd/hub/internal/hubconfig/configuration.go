// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
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

// configurationFile has no path if there is none.
type configurationFile struct {
	configuration
	path string
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

// parseConfiguration reads the text of a file strictly: an unknown or repeated field is a problem. It continues after a problem, and
// fails only if there is nothing to read.
func parseConfiguration(path string, text []byte) (*configurationFile, error) {
	c := &configurationFile{path: path, flags: map[string]bool{}}
	problems, err := output.DecodeYAML(text, &c.configuration)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.problems = append(problems, expect("apiVersion", c.APIVersion, version), expect("kind", c.Kind, Kind))
	return c, nil
}

func expect(field, got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %q; this hub reads %s", field, got, want)
}

// ConfigFlag names the file, which cannot name another.
const ConfigFlag = "config"

// setFlags leaves flags that the command line sets.
func (c *configurationFile) setFlags(set *pflag.FlagSet) {
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		value := c.Flags[name]
		flag, err := set.Lookup(name), value.bad
		switch {
		case flag == nil || name == ConfigFlag:
			err = fmt.Errorf("there is no flag %q to set in a file; see run --help", name)
		case flag.Changed:
			continue
		}
		for i := 0; i < len(value.values) && err == nil; i++ {
			if bad := flag.Value.Set(value.values[i]); bad != nil {
				err = fmt.Errorf("%q: %w", value.values[i], output.ExplainValue(flag, bad))
			}
		}
		if c.flags[name] = err == nil; err != nil {
			c.problems = append(c.problems, fmt.Errorf("flags: %s: %w", name, err))
		}
	}
}

var aboutFlag = regexp.MustCompile(`^--([a-z-]+)`)

// report joins the problems of the file with those in an error about the values of flags and the configuration of modules, each with
// the path of the file unless it is about a flag of the command line. A flag that did not accept its value is reported once.
func (c *configurationFile) report(err error) error {
	if c.path == "" {
		return err
	}
	var all []error
	for _, one := range leaves(errors.Join(c.problems...)) {
		all = append(all, fmt.Errorf("%s: %w", c.path, one))
	}
	for _, one := range leaves(err) {
		if flag := aboutFlag.FindStringSubmatch(one.Error()); flag != nil {
			switch taken, ours := c.flags[flag[1]]; {
			case !ours:
				all = append(all, one)
				continue
			case !taken:
				continue
			}
		}
		all = append(all, fmt.Errorf("%s: %w", c.path, one))
	}
	return errors.Join(all...)
}

func leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // no errors.As: an error that wraps joined ones has a text of its own
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, leaves(one)...)
	}
	return all
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
