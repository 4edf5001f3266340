// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What client-go quotes of a response that accepts a request.
var (
	errFailure = fmt.Errorf("the server sends a Status of failure with a code of success: %w", ErrNotKubernetes)
	errKind    = fmt.Errorf("the server sends an object whose kind or apiVersion is not the name of one: %w", ErrNotKubernetes)
)

// otherType takes the place of a media type that is not known. client-go refuses to decode it, and quotes it.
const otherType = "application/octet-stream"

// Alphabets of the kind and the apiVersion of an object. Which are known is for the decoder to say.
const (
	isKind    = `^[A-Za-z][A-Za-z0-9-]*$`
	isVersion = `^([a-z0-9.-]+/)?[a-z0-9-]+$`
)

// amend replaces what client-go would quote of a response that accepts a request: a media type that is not known, a
// Status of failure, and a kind that is no name. The body of a large object, of a watch and of a proxy in the remote passes.
func amend(r *http.Request, response *http.Response, credentials []Credential) {
	if isProxied(r) {
		return
	}
	own := func(text string) bool { return Redact(text, credentials...) == text }
	if form := response.Header.Get("Content-Type"); form != "" {
		response.Header = response.Header.Clone()
		response.Header.Set("Content-Type", knownType(form, own))
	}
	form := response.Header.Get("Content-Type")
	if isObject := strings.HasPrefix(form, runtime.ContentTypeJSON) || strings.HasPrefix(form, runtime.ContentTypeProtobuf); !isObject || isStream(r) {
		return
	}
	response.Body = &acceptance{ReadCloser: response.Body, judge: func(body []byte) error { return judgeObject(form, body, own) }}
}

// isProxied reports whether something in the remote, and not its API server, responds to a request.
func isProxied(r *http.Request) bool {
	return r.URL != nil && slices.Contains(strings.Split(r.URL.Path, "/"), "proxy")
}

func isStream(r *http.Request) bool {
	if r.URL == nil {
		return false
	}
	query := r.URL.Query()
	isTrue := func(name string) bool { return query.Get(name) == "true" || query.Get(name) == "1" }
	return isTrue("watch") || isTrue("follow")
}

// knownType returns a media type with the parameters that Kubernetes uses, or otherType.
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
		if value := word(params[name], `^[A-Za-z0-9._-]{1,64}$`); value != "" && own(value) {
			kept[name] = value
		}
	}
	return mime.FormatMediaType(media, kept)
}

// acceptance is the body of a response that accepts a request. Its end is an error if what came is refused.
type acceptance struct {
	io.ReadCloser
	judge func(body []byte) error
	body  []byte
	large bool // nothing is kept
}

func (b *acceptance) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.large {
		b.body = append(b.body, p[:n]...)
	}
	if len(b.body) > maxStatus {
		b.body, b.large = nil, true
	}
	if errors.Is(err, io.EOF) && !b.large {
		if refused := b.judge(b.body); refused != nil {
			return n, refused
		}
	}
	return n, err
}

// judgeObject returns an error if client-go would quote an object. What is none is for the decoder to refuse.
func judgeObject(form string, body []byte, own func(text string) bool) error {
	var of metav1.TypeMeta
	if strings.HasPrefix(form, runtime.ContentTypeProtobuf) {
		var wrapped runtime.Unknown
		raw, found := bytes.CutPrefix(body, []byte("k8s\x00"))
		if !found || wrapped.Unmarshal(raw) != nil {
			return nil //nolint:nilerr // The decoder refuses it.
		}
		of = metav1.TypeMeta{Kind: wrapped.Kind, APIVersion: wrapped.APIVersion}
	} else if json.Unmarshal(body, &of) != nil {
		return nil //nolint:nilerr // The decoder refuses it.
	}
	isName := func(text, alphabet string) bool { return text == "" || word(text, alphabet) != "" && own(text) }
	if !isName(of.Kind, isKind) || !isName(of.APIVersion, isVersion) {
		return errKind
	}
	if of.Kind != "Status" {
		return nil
	}
	if said, err := decodeStatus(form, body); err != nil || said.Status != metav1.StatusSuccess {
		return errFailure
	}
	return nil
}
