// SPDX-License-Identifier: Apache-2.0

/*
Package writegate is a transport that refuses requests which may change something at an API server while this process may
not write.

# Usage

	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &writegate.Gate{Next: next, Check: candidacy.Check}
	})

Reads pass, and so do reviews of the own permissions, which change nothing. Events are dropped: their recorder gets the
response of an API server that refuses them, because it keeps an event after any other error and sends it later. Other
requests fail with the error of Check.

The gate refuses requests before they are sent. It cannot recall a request that was sent.
*/
package writegate
