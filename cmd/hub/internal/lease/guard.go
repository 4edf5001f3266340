// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"net/http"

	"github.com/clusterfx/clusterfx/internal/writegate"
)

// Guard returns a transport that refuses requests which may change something while Check does. It
// goes into rest.Config.Wrap; requests that pass it are sent.
func (c *Candidacy) Guard(next http.RoundTripper) http.RoundTripper { return Guard(c.Check, next) }

// Guard returns a transport that refuses requests which may change something while check returns an error.
func Guard(check func() error, next http.RoundTripper) http.RoundTripper {
	return &writegate.Gate{Next: next, Check: check}
}
