// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
)

// What client-go quotes of an accepting response.
var (
	errFailure = fmt.Errorf("the server sends a Status of failure with a code of success: %w", ErrNotKubernetes)
	errTwice   = fmt.Errorf("the server sends an object with two kinds, apiVersions or statuses: %w", ErrNotKubernetes)
	errKind    = fmt.Errorf("the server sends an object whose kind or apiVersion is not a valid name: %w", ErrNotKubernetes)
)

// otherType replaces an unknown media type, which client-go quotes when it refuses to decode it.
const otherType = "application/octet-stream"

// amend replaces what client-go would quote in errors: an unknown media type, a Status of failure, a kind that is no
// valid name, the Status of a watch event. YAML is unknown unless the request accepts it; then it is not judged. A body
// behind a proxy in the remote is data, and unchanged.
func amend(r *http.Request, response *http.Response, redact func(text string) string) {
	own := func(text string) bool { return redact(text) == text }
	form := response.Header.Get("Content-Type")
	if isProxied(r) {
		if _, _, err := mime.ParseMediaType(form); form != "" && (err != nil || !own(form)) {
			response.Header = response.Header.Clone()
			response.Header.Set("Content-Type", otherType)
		}
		return
	}
	if known := typeOf(r, form, own); known != form {
		form = known
		if response.Header = response.Header.Clone(); response.Header == nil {
			response.Header = http.Header{}
		}
		response.Header.Set("Content-Type", form)
	}
	isProtobuf := strings.HasPrefix(form, runtime.ContentTypeProtobuf)
	switch {
	case !isProtobuf && !strings.HasPrefix(form, runtime.ContentTypeJSON):
	case isWatch(r):
		response.Body = newEventBody(response.Body, isProtobuf, eventJudge{r, redact, own})
	case isTrue(r, "follow"):
	case isProtobuf:
		response.Body = &acceptance{response.Body, &protobufJudge{verdict: verdict{own: own}}}
	default:
		response.Body = &acceptance{response.Body, newJSONJudge(own)}
	}
}

func typeOf(r *http.Request, form string, own func(text string) bool) string {
	if form == "" {
		return "text/plain" // or client-go would decode it as the requested kind
	}
	if form = knownType(form, own); strings.HasPrefix(form, runtime.ContentTypeYAML) && !strings.Contains(r.Header.Get("Accept"), "yaml") {
		return otherType
	}
	return form
}

// isProxied: a server behind the subresource proxy of an object responds, not the API server.
func isProxied(r *http.Request) bool {
	return r.URL != nil && requestinfo.Of(r.URL.Path).Subresource == "proxy"
}

func isWatch(r *http.Request) bool { return isTrue(r, "watch") }

func isTrue(r *http.Request, name string) bool {
	if r.URL == nil {
		return false
	}
	value := r.URL.Query().Get(name)
	return value == "true" || value == "1"
}

// knownType keeps the parameters of Kubernetes, or returns otherType.
func knownType(form string, own func(text string) bool) string {
	media, params, err := mime.ParseMediaType(form)
	if err != nil {
		return otherType
	}
	switch media {
	case runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML, "text/plain", "text/html",
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf":
	default:
		return otherType
	}
	kept := map[string]string{}
	for _, name := range []string{"charset", "g", "v", "as", "profile", "stream", "version"} {
		if value := word(params[name], isParam); len(value) <= maxParam && value != "" && own(value) {
			kept[name] = value
		}
	}
	return mime.FormatMediaType(media, kept)
}

// maxParam is the longest parameter that is kept.
const maxParam = 64

type acceptance struct {
	io.ReadCloser
	judge judge
}

// judge reads an object in pieces, and returns an error if client-go would quote it. What is no object passes, and the
// decoder refuses it.
type judge interface {
	read(piece []byte) error
	end() error
}

func (b *acceptance) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.judge.read(p[:n]); refused != nil {
		return 0, refused
	}
	if errors.Is(err, io.EOF) {
		if refused := b.judge.end(); refused != nil {
			return n, refused
		}
	}
	return n, err
}

type verdict struct {
	own                 func(text string) bool // a text has nothing of the credentials
	isStatus, succeeded bool
	// last names are those of most events of a watch.
	last metav1.TypeMeta
}

func (v *verdict) typed(of metav1.TypeMeta) error {
	if !v.isName(of.Kind, &v.last.Kind, isKind) || !v.isName(of.APIVersion, &v.last.APIVersion, isVersion) {
		return errKind
	}
	v.isStatus = v.isStatus || of.Kind == statusKind
	return nil
}

func (v *verdict) isName(text string, last *string, is alphabet) bool {
	if text == "" || text == *last {
		return true
	}
	if word(text, is) == "" || !v.own(text) {
		return false
	}
	*last = text
	return true
}

func (v *verdict) end() error {
	if v.isStatus && !v.succeeded {
		return errFailure
	}
	return nil
}

type jsonJudge struct {
	verdict
	outline outline
	speaks  bool // there is a field in which a Status has words
}

func newJSONJudge(own func(string) bool) *jsonJudge {
	j := &jsonJudge{verdict: verdict{own: own}}
	j.outline.found, j.outline.named = j.found, j.named
	return j
}

func (j *jsonJudge) named(m member) {
	if m.depth == 1 && (m.name == "message" || m.name == "reason" || m.name == "details") {
		j.speaks = true
	}
}

func (j *jsonJudge) found(m member, text string) error {
	if m.depth > 1 {
		return nil
	}
	switch m.name {
	case "kind":
		return j.typed(metav1.TypeMeta{Kind: text})
	case "apiVersion":
		return j.typed(metav1.TypeMeta{APIVersion: text})
	case "status":
		j.succeeded = m.isExact && text == metav1.StatusSuccess // client-go distinguishes upper and lower case.
	}
	return nil
}

// end accepts a CRD of the kind Status, if client-go, which decodes objects of an unknown group as a metav1.Status,
// would quote nothing.
func (j *jsonJudge) end() error {
	if version := j.last.APIVersion; version != "" && version != "v1" && !j.speaks {
		return nil
	}
	return j.verdict.end()
}

func (j *jsonJudge) read(piece []byte) error {
	for len(piece) > 0 {
		n, _, err := j.outline.read(piece)
		if err != nil {
			return err
		}
		piece = piece[n:]
	}
	return nil
}

// protobufJudge keeps the beginning of an object, and the fields after its largest.
type protobufJudge struct {
	verdict
	kept    []byte // all of a small object; of a large one, the beginning, and then the end
	skipped int    // bytes of the largest field that are still to come
	large   bool
}

// maxRest may follow the largest field: API servers say there how it is encoded.
const maxRest = 1 << 10

func (j *protobufJudge) read(piece []byte) error {
	skip := min(j.skipped, len(piece))
	j.skipped -= skip
	j.kept = append(j.kept, piece[skip:]...)
	switch {
	case j.large && len(j.kept) > maxRest:
		return errKind
	case j.large || len(j.kept) <= maxStatus:
		return nil
	}
	j.large = true
	return j.cut()
}

// cut judges the beginning of a large object and forgets it: the type, which is first, and the length of the second
// field.
func (j *protobufJudge) cut() error {
	rest, found := bytes.CutPrefix(j.kept, []byte(protobufPrefix))
	if !found {
		return nil // It is for the decoder to refuse.
	}
	types, rest, first := cutField(rest, 1)
	length, n := binary.Uvarint(rest[min(1, len(rest)):])
	if !first || len(rest) == 0 || rest[0] != 2<<3|2 || n <= 0 || length > math.MaxInt32 {
		return errKind
	}
	var of runtime.TypeMeta
	if err := of.Unmarshal(types); err != nil {
		return errKind
	}
	rest = rest[1+n:]
	skip := min(int(length), len(rest))                            //nolint:gosec // It is at most MaxInt32.
	j.kept, j.skipped = bytes.Clone(rest[skip:]), int(length)-skip //nolint:gosec // It is at most MaxInt32.
	if of.Kind == statusKind {                                     // A true one is small.
		return errFailure
	}
	return j.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion})
}

func (j *protobufJudge) end() error {
	if j.large {
		var rest runtime.Unknown
		if rest.Unmarshal(j.kept) == nil && (rest.TypeMeta != runtime.TypeMeta{} || len(rest.Raw) > 0) {
			return errKind
		}
		return nil
	}
	wrapped, err := open(j.kept)
	if err != nil {
		return nil //nolint:nilerr // It is for the decoder to refuse.
	}
	if err := j.typed(metav1.TypeMeta{Kind: wrapped.Kind, APIVersion: wrapped.APIVersion}); err != nil {
		return err
	}
	if j.isStatus {
		said, err := decodeStatus(runtime.ContentTypeProtobuf, j.kept)
		j.succeeded = err == nil && said.Status == metav1.StatusSuccess
	}
	return j.verdict.end()
}

func cutField(message []byte, number byte) (content, rest []byte, found bool) {
	if len(message) == 0 || message[0] != number<<3|2 {
		return nil, message, false
	}
	length, n := binary.Uvarint(message[1:])
	if n <= 0 || length > uint64(len(message)-1-n) {
		return nil, message, false
	}
	end := 1 + n + int(length) //nolint:gosec // It is at most the length of the message.
	return message[1+n : end], message[end:], true
}
