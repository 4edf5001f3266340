// SPDX-License-Identifier: Apache-2.0

package quota

import "errors"

// Config is the configuration of the module by an operator.
type Config struct {
	// Pods is how many Pods a Namespace may have.
	Pods int64 `json:"pods"`
}

// Defaults returns the values of fields that the operator does not set.
func Defaults() Config { return Config{Pods: 100} }

// Validate is called when the hub starts.
func (c Config) Validate() error {
	if c.Pods < 1 {
		return errors.New("pods: use 1 or more")
	}
	return nil
}
