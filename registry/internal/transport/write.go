// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strconv"
)

// mutates reports whether the gate decides about a request. A stream that begins with a write, such as exec, is one
// until its first response.
func mutates(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// write counts a request before it asks the gate, so that none is overlooked between a closing gate and a later count.
// It counts until it was not sent or has a response. With another end, such as a lost connection, it may still take
// effect, and counts until it would have timed out.
func (c *Chain) write(r *http.Request, kind requestKind) (*http.Response, error) {
	isSettled := false
	if c.Writes != nil {
		end := c.Writes(c.Timeout)
		defer func() { end(isSettled) }()
	}
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

// RefusedError is the error of a write that a gate refused. It has the text of the gate's error, and matches it.
type RefusedError struct{ gate error }

// Error returns the text of the gate's error.
func (e *RefusedError) Error() string { return e.gate.Error() }

// Unwrap returns the gate's error.
func (e *RefusedError) Unwrap() error { return e.gate }

// RefuseWrite is Refuse with an error that wraps a RefusedError.
func RefuseWrite(r *http.Request, err error) (*http.Response, error) {
	return Refuse(r, &RefusedError{err})
}

// isConclusive: the response says what has become of a write. A gateway responds with one of these codes when it has no
// response itself, and the write may be on its way behind it.
func isConclusive(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// agentIn has a form of its own, so that the term cannot be taken for another number.
func agentIn(agent string, term int64) string {
	return agent + "/term-" + strconv.FormatInt(term, 10)
}
