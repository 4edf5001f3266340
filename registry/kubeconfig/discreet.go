// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/clusterfx/clusterfx/internal/wire"
)

// CauseUndeclared is the cause of an error about a field that the schema lacks, for which API servers have no reason,
// and whose message Discreet removes.
const CauseUndeclared = wire.Undeclared

// Discreet returns a RoundTripper that keeps the text of a server out of errors, and so out of logs, events and status.
//
// A refusal (400 and above) gets a Status with only checked tokens of the server: the code, the reason, fields and
// types of causes, a cause for what only the message tells (such as CauseUndeclared), the name of a webhook, and how
// long to wait. Package apierrors works as before. Errors of the connection get a fixed text and still match what they
// wrap. In a response that accepts a request an unknown media type is replaced, and a Status of failure, or a kind that
// is no valid name, is an error. The Status of an ERROR event of a watch is replaced like a refusal's. A 404 that is of
// no API server is an error: it says nothing about an object.
//
// Three exceptions remain: a decoder quotes a value that it cannot decode, YAML is not judged if the request asks for
// it, and the response behind a proxy of the remote is data. credentials may be echoed by the server, beside the token
// of the request. A Transport includes Discreet.
func Discreet(next http.RoundTripper, credentials ...Credential) http.RoundTripper {
	return discreet{next, credentials}
}

type discreet struct {
	next        http.RoundTripper
	credentials []Credential
}

func (d discreet) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, worded(err)
	}
	credentials := d.credentials
	if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found { // of a plugin, perhaps
		credentials = append(credentials[:len(credentials):len(credentials)], newCredential(&secret{kind: Token, token: token}))
	}
	return withoutText(r, response, credentials...)
}

// withoutText refuses a 404 that is of no API server. credentials may be echoed in the body.
func withoutText(r *http.Request, response *http.Response, credentials ...Credential) (*http.Response, error) {
	if response.StatusCode == http.StatusSwitchingProtocols || response.Body == nil { // The body is a connection.
		return response, nil
	}
	if wire.IsFromProxy(response) {
		response.Body.Close()
		return nil, worded(ErrNotForwarded)
	}
	response.Body = &wordedBody{response.Body}
	return wire.Replace(r, response, func(text string) string { return Redact(text, credentials...) }), nil
}

type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// Timeout implements net.Error for client-go.
func (e *wordedError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.err, &timeout) && timeout.Timeout()
}

// worded explains why there is no response. Errors of the hub itself keep their text.
func worded(err error) error {
	var own *Error
	var done *wordedError
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &done),
		err == io.EOF, err == io.ErrUnexpectedEOF, err == context.Canceled, err == context.DeadlineExceeded, //nolint:errorlint // and nothing around them
		errors.Is(err, errClosed), errors.Is(err, errHost), errors.Is(err, errProxy):
		return err
	}
	_, text := Classify(err)
	for _, known := range []string{
		"http2: client connection lost", "http2: server sent GOAWAY and closed the connection", "use of closed network connection",
		"connection reset by peer",
	} {
		if strings.Contains(err.Error(), known) { // which client-go looks for
			text += fmt.Sprintf(" (%s)", known)
		}
	}
	return &wordedError{text, err}
}

type wordedBody struct{ io.ReadCloser }

func (b *wordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, worded(err)
}
