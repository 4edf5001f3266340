// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/arguments"
	"github.com/clusterfx/clusterfx/registry"
)

// What a configuration file says that it is.
const (
	configurationVersion = "config.clusterfx.dev/v1alpha1"
	configurationKind    = "HubConfiguration"
)

// configuration is the file that --config names.
type configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Flags are flags of the command run by their names, without the dashes. One on the command line wins.
	Flags map[string]flagValue `json:"flags,omitempty"`
	// Modules are the configurations of modules.
	Modules []registry.ModuleConfig `json:"modules,omitempty"`
}

// flagValue is the value of a flag in a file: a text, a number, a bool, or a list of texts for a flag that may
// be repeated.
type flagValue []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *flagValue) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '[':
		var all []string
		err := json.Unmarshal(data, &all)
		*v = all
		return err
	case '"':
		var one string
		err := json.Unmarshal(data, &one)
		*v = flagValue{one}
		return err
	case '{', 'n':
		return errors.New("the value of a flag is a text, a number, true, false, or a list of texts")
	}
	*v = flagValue{string(data)}
	return nil
}

// readConfiguration reads a file strictly: what it does not know is an error.
func readConfiguration(path string) (configuration, error) {
	var c configuration
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("--config: %w", err)
	}
	if documents := bytes.Count(append([]byte("\n"), text...), []byte("\n---")); documents > 1 || documents == 1 && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("---")) {
		return c, fmt.Errorf("--config=%s: it holds several YAML documents, of which only the first would be read", path)
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("--config=%s: %w", path, err)
	}
	if c.APIVersion != configurationVersion || c.Kind != configurationKind {
		return c, fmt.Errorf("--config=%s: apiVersion is %q and kind %q; this hub reads %s, %s",
			path, c.APIVersion, c.Kind, configurationVersion, configurationKind)
	}
	return c, nil
}

// configFlag is the flag that names the file. The file cannot name another one.
const configFlag = "config"

// setFlags gives flags the values that the file has for them, unless the command line has others.
func (c configuration) setFlags(set *pflag.FlagSet) error {
	var problems []error
	for name, values := range c.Flags {
		flag := set.Lookup(name)
		switch {
		case flag == nil || name == configFlag:
			problems = append(problems, fmt.Errorf("flags: there is no flag %q to set in a file; see run --help", name))
			continue
		case flag.Changed:
			continue
		}
		for _, value := range values {
			if err := flag.Value.Set(value); err != nil {
				problems = append(problems, fmt.Errorf("flags: %s: %q: %w", name, value, arguments.ExplainValue(flag, err)))
			}
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}
