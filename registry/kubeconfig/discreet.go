// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bounds of the parts of a refusal that are kept.
const (
	maxRefusal      = 1 << 20   // bytes that are read of one
	maxStatus       = 256 << 10 // bytes that are decoded
	maxWord         = 256       // bytes of a checked token
	maxCauses       = 8
	maxRetrySeconds = 3600
)

// statusKind is the kind of metav1.Status.
const statusKind = "Status"

// Discreet returns a RoundTripper that keeps the text of a server out of errors, and so out of logs, events and status.
// It replaces the body of a response that refuses a request (400 and above) by a Status with only checked tokens of the
// server: the HTTP code, the reason, fields and types of causes, the name of a webhook, and how long to wait. The
// functions of package apierrors work as before. Errors of the connection also get a fixed text, because the error of a
// certificate names its subjects, and the error of a malformed response quotes the response. They still match the
// errors that they wrap. In a response that accepts a request, an unknown media type is replaced, and a Status of
// failure or a kind that is not a valid name is an error. The Status of an ERROR event of a watch is replaced like the
// Status of a refusal. Three exceptions remain: a decoder quotes a value that it cannot decode, YAML is not judged if
// the request asks for it, and the response of a server behind a proxy of the remote is data. credentials are the
// credentials that the server may echo, in addition to the token of the request. A Transport includes Discreet.
func Discreet(next http.RoundTripper, credentials ...Credential) http.RoundTripper {
	return discreet{next, credentials}
}

type discreet struct {
	next        http.RoundTripper
	credentials []Credential
}

// RoundTrip sends the request.
func (d discreet) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, worded(err)
	}
	credentials := d.credentials
	if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found { // of a plugin, perhaps
		credentials = append(credentials[:len(credentials):len(credentials)], newCredential(&secret{kind: Token, token: token}))
	}
	return withoutText(r, response, credentials...), nil
}

// withoutText replaces the text of a response. credentials are the credentials that its body may have echoed.
func withoutText(r *http.Request, response *http.Response, credentials ...Credential) *http.Response {
	if response.StatusCode == http.StatusSwitchingProtocols || response.Body == nil { // The body is a connection.
		return response
	}
	response.Body = &wordedBody{response.Body}
	if r.Method == http.MethodHead {
		return response
	}
	if response.StatusCode < http.StatusBadRequest {
		if response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent { // which client-go decodes
			amend(r, response, credentials)
		}
		return response
	}
	code, form := response.StatusCode, response.Header.Get("Content-Type")
	response.Body = &refusal{ReadCloser: response.Body, code: code, make: func(body []byte) ([]byte, error) {
		return json.Marshal(statusOf(r, code, form, body).hide(credentials))
	}}
	if response.ContentLength <= maxRefusal { // Another part of the chain refuses a longer body by its length.
		response.ContentLength = -1
	}
	response.Header = response.Header.Clone()
	response.Header.Del("Content-Length")
	response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	return response
}

// refusal is the body of a response that refuses a request. It is read as a whole when it is first read.
type refusal struct {
	io.ReadCloser
	code int
	make func(body []byte) ([]byte, error)
	made *bytes.Reader
}

func (b *refusal) Read(p []byte) (int, error) {
	if b.made == nil {
		body, err := io.ReadAll(io.LimitReader(b.ReadCloser, maxRefusal+1))
		if err != nil {
			return 0, err
		}
		if len(body) > maxRefusal {
			body = nil
		}
		made, err := b.make(body)
		if err != nil {
			return 0, &StatusError{Code: b.code}
		}
		b.made = bytes.NewReader(made)
	}
	return b.made.Read(p)
}

// decodeStatus decodes a Status from JSON or protobuf.
func decodeStatus(form string, body []byte) (*metav1.Status, error) {
	var said metav1.Status
	if len(body) > maxStatus {
		return nil, ErrNotKubernetes
	}
	if !strings.Contains(form, "protobuf") {
		err := json.Unmarshal(body, &said)
		return &said, err
	}
	var wrapped runtime.Unknown
	raw, found := bytes.CutPrefix(body, []byte(protobufPrefix))
	if !found {
		return nil, ErrNotKubernetes
	}
	if err := wrapped.Unmarshal(raw); err != nil {
		return nil, err
	}
	said.TypeMeta = metav1.TypeMeta{Kind: wrapped.Kind, APIVersion: wrapped.APIVersion}
	return &said, said.Unmarshal(wrapped.Raw)
}

// reply is a Status without words of the server.
type reply struct{ metav1.Status }

// statusOf returns the parts of the body of a refusal that are kept.
func statusOf(r *http.Request, code int, form string, body []byte) reply {
	known := refusedWith(code, r.Method)
	if !strings.Contains(form, "json") && !strings.Contains(form, "protobuf") {
		return reply{known}.describe(r, "")
	}
	said, err := decodeStatus(form, body)
	if err != nil || said.Kind != statusKind || said.Status == metav1.StatusSuccess {
		return reply{known}.describe(r, "")
	}
	kept := metav1.Status{TypeMeta: known.TypeMeta, Status: metav1.StatusFailure, Code: int32(code)}
	kept.Reason = metav1.StatusReason(word(string(said.Reason), isReason))
	kept.Details = detailsOf(said.Details)
	return reply{kept}.describe(r, webhookOf(said.Message))
}

// refusedWith returns the Status that follows from an HTTP code alone, as client-go makes it.
func refusedWith(code int, method string) metav1.Status {
	known := apierrors.NewGenericServerResponse(code, method, schema.GroupResource{}, "", "", 0, true).Status()
	known.TypeMeta = metav1.TypeMeta{Kind: statusKind, APIVersion: "v1"}
	known.Message = ""
	return known
}

func detailsOf(said *metav1.StatusDetails) *metav1.StatusDetails {
	if said == nil {
		return nil
	}
	kept := &metav1.StatusDetails{
		Name: word(said.Name, isName), Group: word(said.Group, isName), Kind: word(said.Kind, isReason),
		RetryAfterSeconds: max(0, min(said.RetryAfterSeconds, maxRetrySeconds)),
	}
	if kept.Kind == "" {
		kept.Kind = word(said.Kind, isName)
	}
	for _, cause := range said.Causes[:min(len(said.Causes), maxCauses)] {
		checked := metav1.StatusCause{
			Type: metav1.CauseType(word(string(cause.Type), isReason)), Field: word(cause.Field, isField),
		}
		if checked != (metav1.StatusCause{}) {
			kept.Causes = append(kept.Causes, checked)
		}
	}
	return kept
}

// describe adds a message with the request and the kept parts of the response.
func (s reply) describe(r *http.Request, webhook string) reply {
	text := "the server responds with status " + strconv.Itoa(int(s.Code)) + " " + http.StatusText(int(s.Code)) + " to " + r.Method
	if r.URL != nil {
		text += " " + word(r.URL.Path, isPath)
	}
	var said []string
	if s.Reason != "" && string(s.Reason) != strings.ReplaceAll(http.StatusText(int(s.Code)), " ", "") {
		said = append(said, string(s.Reason))
	}
	if webhook != "" {
		said = append(said, "webhook "+strconv.Quote(webhook))
	}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			said = append(said, strings.TrimSpace(cause.Field+" "+string(cause.Type)))
		}
	}
	if len(said) > 0 {
		text += ": " + strings.Join(said, ", ")
	}
	s.Message = text
	return s
}

// hide replaces credentials: tokens have the alphabet of credentials, and a server may echo those.
func (s reply) hide(credentials []Credential) metav1.Status {
	hidden := s.Status
	hidden.Message = Redact(s.Message, credentials...)
	hidden.Reason = metav1.StatusReason(Redact(string(s.Reason), credentials...))
	if s.Details == nil {
		return hidden
	}
	for _, text := range []*string{&hidden.Details.Name, &hidden.Details.Group, &hidden.Details.Kind} {
		*text = Redact(*text, credentials...)
	}
	for i := range hidden.Details.Causes {
		cause := &hidden.Details.Causes[i]
		cause.Field = Redact(cause.Field, credentials...)
		cause.Type = metav1.CauseType(Redact(string(cause.Type), credentials...))
	}
	return hidden
}

// An alphabet reports whether a text consists of some characters only, and begins and ends with some of them.
type alphabet func(text string) bool

// Characters of alphabets.
const (
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// consists reports whether a text begins with a character of first and continues with characters of rest only.
func consists(text, first, rest string) bool {
	if text == "" || strings.IndexByte(first, text[0]) < 0 {
		return false
	}
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(rest, text[i]) < 0 {
			return false
		}
	}
	return true
}

func isReason(text string) bool { return consists(text, uppers+lowers, uppers+lowers+digits) }

func isName(text string) bool {
	return consists(text, lowers+digits, lowers+digits+".:-") && strings.IndexByte(".:-", text[len(text)-1]) < 0
}

func isField(text string) bool {
	return consists(text, uppers+lowers+"_.", uppers+lowers+digits+`_.-[]"/=(){}:,`)
}

func isPath(text string) bool { return consists(text, "/", uppers+lowers+digits+"/_.:~%-") }

// word returns a text if it is short and has an alphabet, or nothing.
func word(text string, is alphabet) string {
	if len(text) > maxWord || !is(text) {
		return ""
	}
	return text
}

// maxCalling is how far into a message the words may come that say that a webhook cannot be called.
const maxCalling = 64

// webhookOf returns the name of the webhook in a message of an API server about a webhook that refused a request or
// cannot be called, or nothing.
func webhookOf(message string) string {
	rest, found := strings.CutPrefix(message, `admission webhook "`)
	if !found {
		var before string
		if before, rest, found = strings.Cut(message, `failed calling webhook "`); !found || len(before) > maxCalling {
			return ""
		}
	}
	name, _, found := strings.Cut(rest, `"`)
	if !found || strings.Contains(name, ":") {
		return ""
	}
	return word(name, isName)
}

// wordedError is an error of a connection with a text of our own.
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

// worded returns an error with a fixed text that explains why there is no response. Errors of the hub itself keep their
// text.
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

// wordedBody is the body of a response whose errors have fixed texts.
type wordedBody struct{ io.ReadCloser }

func (b *wordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, worded(err)
}
