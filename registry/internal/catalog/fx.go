// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// Parts are the options that a module adds to Apps, nil for none.
type Parts struct {
	Remote, Hub, ForHubParts fx.Option
}

// ConfigType is the type of a module's configuration, which is a list of layers of JSON; later ones override. The zero
// ConfigType means none.
type ConfigType struct {
	// Provide decodes and checks a configuration, and returns an option that provides it to the module alone. The
	// option returns the error again.
	Provide func(layers []json.RawMessage) (fx.Option, error)
	// Filters returns none for a configuration with an error.
	Filters func(layers []json.RawMessage) []cache.Filter
}

func (t ConfigType) provide(layers []json.RawMessage) (fx.Option, error) {
	if t.Provide != nil {
		return t.Provide(layers)
	}
	for _, layer := range layers {
		if len(layer) > 0 {
			return nil, errNoConfig
		}
	}
	return fx.Options(), nil
}

// ProvideConfig provides the configuration to the remote part. If several overrides together are invalid, the
// constructor that asks for it fails, or the app of a module whose permissions follow from its configuration.
func (c Choice) ProvideConfig() fx.Option {
	config, _ := c.Config.provide(c.layers) // the option returns the error again
	if _, err := c.ConfigRules(); err != nil {
		return fx.Options(config, fx.Error(errorIn(c.Name, err)))
	}
	return config
}

// Shared is a value of the hub that goes into every app, or the type of such a value.
type Shared struct {
	Type    reflect.Type
	Provide fx.Option
}

// String names the type.
func (s Shared) String() string { return fmt.Sprintf("registry.Share[%s]", s.Type) }

// ProvideShared returns an option that provides every shared value, once for each type.
func ProvideShared(all []Shared) fx.Option {
	var options []fx.Option
	seen := map[reflect.Type]bool{}
	for _, s := range all {
		if s.Type != nil && !seen[s.Type] {
			seen[s.Type] = true
			options = append(options, s.Provide)
		}
	}
	return fx.Options(options...)
}
