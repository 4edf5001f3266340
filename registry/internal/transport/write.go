// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strconv"
)

// mutates reports whether a request may change something, which is what the gate is for. A stream that begins with such a
// request, such as exec with POST, is a write until its first response: the gate decides about its beginning only.
func mutates(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// write sends a mutating request, unless the gate refuses it. The request counts as in flight before it asks the gate, so that
// none is overlooked between a gate that closes and a count that is read after that. It counts until its outcome is known: it
// was not sent, or it has a response. With any other end, such as a canceled context or a lost connection, it may still take
// effect, and counts until it would have timed out.
func (c *Chain) write(r *http.Request, kind requestKind) (*http.Response, error) {
	one, isSettled := c.Writes.Begin(), false
	defer func() {
		if isSettled {
			one.End()
			return
		}
		one.EndAfter(c.Timeout)
	}()
	term, err := c.Gate()
	if err != nil {
		isSettled = true
		return RefuseWrite(r, err)
	}
	if term != 0 {
		r.Header.Set("User-Agent", agentIn(c.UserAgent, term))
	}
	response, err := SendLimited(c.Base, r)
	isSettled = IsUnsent(err) || err == nil && isConclusive(response)
	return c.accept(r, kind, response, err)
}

// RefusedError is the error of a write that a gate has refused. It has the text of the gate's error, and matches it.
type RefusedError struct{ gate error }

// Error returns the text of the gate's error.
func (e *RefusedError) Error() string { return e.gate.Error() }

// Unwrap returns the gate's error.
func (e *RefusedError) Unwrap() error { return e.gate }

// RefuseWrite is Refuse for a write that a gate refuses with err; the error that it returns wraps a RefusedError.
func RefuseWrite(r *http.Request, err error) (*http.Response, error) {
	return Refuse(r, &RefusedError{err})
}

// isConclusive reports whether a response says what has become of a write. A gateway between the hub and the API server, or
// between the API server and an extension of it, responds with one of these codes when it has no response itself, and the
// write may be on its way behind it.
func isConclusive(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// agentIn returns the user agent of a write with the number of the permission, in a form of its own so that it cannot be
// mistaken for another number.
func agentIn(agent string, term int64) string {
	return agent + "/term-" + strconv.FormatInt(term, 10)
}
