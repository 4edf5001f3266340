// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
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

// Of the parts of a refusal that are kept.
const (
	maxRefusal      = 1 << 20   // bytes that are read of one
	maxStatus       = 256 << 10 // bytes that are decoded
	maxCauses       = 8
	maxRetrySeconds = 3600
)

// ErrNotKubernetes means that the response is not from a Kubernetes API server.
var ErrNotKubernetes = errors.New("the response is not from a Kubernetes API server")

const statusKind = "Status"

// Replace replaces the text of the server in a response whose body is no connection. redact replaces credentials that
// the server may echo.
func Replace(r *http.Request, response *http.Response, redact func(text string) string) *http.Response {
	if r.Method == http.MethodHead {
		return response
	}
	if response.StatusCode < http.StatusBadRequest {
		if response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent { // which client-go decodes
			amend(r, response, redact)
		}
		return response
	}
	code, form := response.StatusCode, response.Header.Get("Content-Type")
	response.Body = &refusal{ReadCloser: response.Body, make: func(body []byte) ([]byte, error) {
		return json.Marshal(statusOf(r, code, form, body).hide(redact))
	}}
	if response.ContentLength <= maxRefusal { // Another part of the chain refuses a longer body by its length.
		response.ContentLength = -1
	}
	response.Header = response.Header.Clone()
	response.Header.Del("Content-Length")
	response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	return response
}

// IsFromProxy reports whether a response says that something does not exist and is of no API server, which answers with
// a Status, or names the request in the header Audit-Id. It puts back a body that it has read.
func IsFromProxy(response *http.Response) bool {
	if response.StatusCode != http.StatusNotFound || response.Header.Get("Audit-Id") != "" || response.Body == nil {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	rest := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	if err != nil {
		return false // The reader of the body gets the error again.
	}
	said, err := decodeStatus(response.Header.Get("Content-Type"), body)
	return err != nil || said.Kind != statusKind
}

// refusal is read as a whole when it is first read.
type refusal struct {
	io.ReadCloser
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
			return 0, fmt.Errorf("encode the Status of the response: %w", err)
		}
		b.made = bytes.NewReader(made)
	}
	return b.made.Read(p)
}

func decodeStatus(form string, body []byte) (*metav1.Status, error) {
	var said metav1.Status
	if len(body) > maxStatus {
		return nil, ErrNotKubernetes
	}
	of, err := Decode(form, body, &said)
	if of.Kind != "" {
		said.TypeMeta = of
	}
	return &said, err
}

type reply struct{ metav1.Status }

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
	if class, known := classOf(said.Message); known {
		if kept.Details == nil {
			kept.Details = &metav1.StatusDetails{}
		}
		kept.Details.Causes = append(kept.Details.Causes, class)
	}
	return reply{kept}.describe(r, webhookOf(said.Message))
}

// refusedWith is what client-go makes of a code alone.
func refusedWith(code int, method string) metav1.Status {
	known := apierrors.NewGenericServerResponse(code, method, schema.GroupResource{}, "", "", 0, true).Status()
	known.TypeMeta = metav1.TypeMeta{Kind: statusKind, APIVersion: "v1"}
	known.Message = ""
	return known
}

// API servers have no reason for these errors; see kubeconfig.CauseUndeclared.
const (
	Undeclared metav1.CauseType = "FieldNotDeclared"
	Duplicate  metav1.CauseType = "DuplicateEntries"
	TooLarge   metav1.CauseType = "TooLargeForEtcd"
)

// classOf reads what only the message tells, with the field if the message begins with its path. The words are those of
// structuredmerge.go of apimachinery, and of etcd.
func classOf(message string) (metav1.StatusCause, bool) {
	for _, class := range []struct {
		words string
		of    metav1.CauseType
	}{
		{": field not declared in schema", Undeclared}, {": duplicate entries for key", Duplicate}, {"etcdserver: request is too large", TooLarge},
	} {
		if before, _, found := strings.Cut(message, class.words); found {
			field := before[strings.LastIndexAny(before, " \n")+1:]
			return metav1.StatusCause{Type: class.of, Field: word(field, isField)}, true
		}
	}
	return metav1.StatusCause{}, false
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

// hide replaces credentials, whose alphabet tokens have: a server may echo them.
func (s reply) hide(redact func(text string) string) metav1.Status {
	hidden := s.Status
	hidden.Message = redact(s.Message)
	hidden.Reason = metav1.StatusReason(redact(string(s.Reason)))
	if s.Details == nil {
		return hidden
	}
	for _, text := range []*string{&hidden.Details.Name, &hidden.Details.Group, &hidden.Details.Kind} {
		*text = redact(*text)
	}
	for i := range hidden.Details.Causes {
		cause := &hidden.Details.Causes[i]
		cause.Field = redact(cause.Field)
		cause.Type = metav1.CauseType(redact(string(cause.Type)))
	}
	return hidden
}

// maxCalling is how far into a message the words may be that a webhook cannot be called.
const maxCalling = 64

// webhookOf names the webhook that refused a request or cannot be called, or returns "".
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
