// SPDX-License-Identifier: Apache-2.0

package quota

import "errors"

// Config is what an operator may say about the module.
type Config struct {
	// Pods is how many Pods a Namespace may have.
	Pods int64 `json:"pods"`
}

// Defaults returns what holds where the operator says nothing.
func Defaults() Config { return Config{Pods: 100} }

// Validate is called when the hub starts.
func (c Config) Validate() error {
	if c.Pods < 1 {
		return errors.New("pods: use 1 or more")
	}
	return nil
}
