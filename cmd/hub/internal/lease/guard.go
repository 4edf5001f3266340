// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"net/http"

	"github.com/clusterfx/clusterfx/internal/writegate"
)

// Guard is for rest.Config.Wrap: it refuses requests that may change something while Check does.
func (c *Candidacy) Guard(next http.RoundTripper) http.RoundTripper { return Guard(c.Check, next) }

// Guard returns a transport that refuses such requests while check returns an error.
func Guard(check func() error, next http.RoundTripper) http.RoundTripper {
	return &writegate.Gate{Next: next, Check: check}
}
