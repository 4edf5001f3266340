// SPDX-License-Identifier: Apache-2.0

package state

import "fmt"

// InvalidNameError is returned for the name of a remote that is not a DNS label.
type InvalidNameError struct {
	Name ClusterName
	Why  string
}

// Error quotes the name and says why it is invalid.
func (e *InvalidNameError) Error() string {
	return fmt.Sprintf("the name of a remote must be a DNS label, and %q is not one: %s", Sanitize(string(e.Name)), e.Why)
}
