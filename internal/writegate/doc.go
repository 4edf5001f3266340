// SPDX-License-Identifier: Apache-2.0

/*
Package writegate is a transport that refuses requests which may change something while this process may not write.

	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &writegate.Gate{Next: next, Check: replica.Check}
	})

Reads and reviews of the own permissions pass. Events are answered like an API server that refuses them, since recorders keep and
resend them after any other error. It cannot recall a request that was sent.
*/
package writegate
