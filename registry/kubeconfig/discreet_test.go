// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

type roundTrip = testkit.RoundTrip

// refused returns the error that client-go makes from a response to the creation of a ConfigMap.
func refused(t *testing.T, code int, form string, body []byte) error {
	t.Helper()
	answer := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Request: r, Header: http.Header{"Content-Type": {form}}, Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})
	hidden := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	client, err := rest.RESTClientFor(&rest.Config{
		Host: "https://example.com", APIPath: "/api", Transport: kubeconfig.Discreet(answer, hidden), QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs},
	})
	must(t, err)
	_, err = client.Post().Namespace("default").Resource("configmaps").Name("x").MaxRetries(0).Do(t.Context()).Get()
	return err
}

// said is a Status with text of the server in every field that can hold text.
func said() metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 422,
		Message: `admission webhook "quota.example.com" denied the request: SPOKEN ` + canaryToken, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{
			Name: "SPOKEN name", Kind: "ConfigMap", UID: "SPOKEN uid", RetryAfterSeconds: 7,
			Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[0].name", Message: "SPOKEN"},
				{Type: "SPOKEN type", Field: "SPOKEN field", Message: "SPOKEN"},
				{Field: canaryToken},
				{Type: metav1.CauseType(canaryToken)},
			},
		},
	}
}

// The error that client-go makes from a refusal has checked tokens of the server, and no other text of it.
func TestDiscreet_Status(t *testing.T) {
	t.Parallel()
	status := said()
	asJSON, err := json.Marshal(status)
	must(t, err)
	var asProtobuf bytes.Buffer
	must(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&status, &asProtobuf))
	for form, body := range map[string][]byte{
		runtime.ContentTypeJSON: asJSON, "application/json; charset=utf-8": asJSON, runtime.ContentTypeProtobuf: asProtobuf.Bytes(),
	} {
		err := refused(t, 422, form, body)
		var found apierrors.APIStatus
		if !errors.As(err, &found) || !apierrors.IsInvalid(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) {
			t.Fatalf("%s: got %v, want Invalid with its cause", form, err)
		}
		want := metav1.Status{
			Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
			Message: "the server responds with status 422 Unprocessable Entity to POST /api/v1/namespaces/default/configmaps/x: " +
				`Invalid, webhook "quota.example.com", spec.ports[0].name FieldValueInvalid, [redacted], [redacted]`,
			Details: &metav1.StatusDetails{
				Kind: "ConfigMap", RetryAfterSeconds: 7,
				Causes: []metav1.StatusCause{
					{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[0].name"}, {Field: "[redacted]"}, {Type: "[redacted]"},
				},
			},
		}
		testkit.Equal(t, found.Status(), want, form)
		if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 7 {
			t.Errorf("%s: got delay %d, %v, want 7", form, seconds, ok)
		}
	}
}

// What only the message of an API server tells has a class, with the field, and the names and values of the message are gone.
func TestDiscreet_Classes(t *testing.T) {
	t.Parallel()
	const patch = "failed to create typed patch object (default/SPOKEN; apps/v1, Kind=Deployment): "
	for message, want := range map[string]metav1.StatusCause{
		patch + ".spec.users: field not declared in schema": {Type: kubeconfig.CauseUndeclared, Field: ".spec.users"},
		patch + "errors:\n  .spec.containers[name=\"c\"].env: duplicate entries for key [name=\"SPOKEN\"]": {
			Type: "DuplicateEntries", Field: `.spec.containers[name="c"].env`,
		},
		"etcdserver: request is too large": {Type: "TooLargeForEtcd"},
	} {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 500, Message: message,
		})
		must(t, err)
		refusal := refused(t, 500, runtime.ContentTypeJSON, body)
		var found apierrors.APIStatus
		if !errors.As(refusal, &found) || strings.Contains(fmt.Sprintf("%+v", found.Status()), "SPOKEN") {
			t.Fatalf("%s: got %v", message, refusal)
		}
		testkit.Equal(t, found.Status().Details, &metav1.StatusDetails{Causes: []metav1.StatusCause{want}}, message)
	}
}

// A token of the server is kept if it is short and not part of a credential.
func TestDiscreet_Tokens(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 257)
	for said, want := range map[string]string{
		"QuotaExceeded": "QuotaExceeded", long[1:]: long[1:], long: "", canaryToken: "[redacted]", "SPOKEN words": "",
	} {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 403,
			Reason: metav1.StatusReason(said), Details: &metav1.StatusDetails{Kind: said},
		})
		must(t, err)
		refusal := refused(t, 403, runtime.ContentTypeJSON, body)
		var found apierrors.APIStatus
		if !errors.As(refusal, &found) {
			t.Fatalf("%.20s: got %v, want an APIStatus", said, refusal)
		}
		if got := found.Status(); string(got.Reason) != want || got.Details.Kind != want {
			t.Errorf("%.20q: got reason %.20q and kind %.20q, want %.20q", said, got.Reason, got.Details.Kind, want)
		}
	}
}

// A refusal that is not a Status is classified by its code, and its text is not repeated. One with code 404 says nothing about an
// object.
func TestDiscreet_NoStatus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("SPOKEN ", 1<<18)
	for code, is := range map[int]func(error) bool{
		404: func(err error) bool { return errors.Is(err, kubeconfig.ErrNotForwarded) && !apierrors.IsNotFound(err) }, 403: apierrors.IsForbidden, 401: apierrors.IsUnauthorized, 409: apierrors.IsAlreadyExists,
		500: apierrors.IsInternalError, 503: apierrors.IsServiceUnavailable, 504: apierrors.IsTimeout, 429: apierrors.IsTooManyRequests,
		422: apierrors.IsInvalid, 400: apierrors.IsBadRequest, 410: apierrors.IsResourceExpired,
	} {
		for form, body := range map[string]string{
			"text/html": "<html>SPOKEN</html>", "text/plain": "SPOKEN", "application/json": `{"kind":"SPOKEN"}`, "": "SPOKEN",
			"application/SPOKEN": "SPOKEN", "application/yaml": "message: SPOKEN", "application/vnd.kubernetes.protobuf": "SPOKEN",
			"application/json; long": long,
		} {
			err := refused(t, code, form, []byte(body))
			if !is(err) && code != 410 || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "SPOKEN") {
				t.Errorf("%d %s: got %v, want an error of this code without text of the server", code, form, err)
			}
			if code != 404 && !apierrors.IsUnexpectedServerError(err) {
				t.Errorf("%d %s: got %v, want an unexpected server error", code, form, err)
			}
		}
	}
}

// An error of a connection has a fixed text, and matches the error that it wraps. Errors of the hub keep their text.
func TestDiscreet_Errors(t *testing.T) {
	t.Parallel()
	spoken := errors.New(`malformed HTTP response "SPOKEN"`)
	for _, c := range []struct {
		err  error
		kept bool
	}{
		{spoken, false},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, spoken), false},
		{context.Canceled, true},
		{context.DeadlineExceeded, true},
		{io.EOF, true},
	} {
		client := kubeconfig.Discreet(roundTrip(func(*http.Request) (*http.Response, error) { return nil, c.err }))
		request := testkit.Request(t, http.MethodGet, "https://example.com")
		_, err := client.RoundTrip(request)
		if !errors.Is(err, c.err) || strings.Contains(err.Error(), "SPOKEN") || (err == c.err) != c.kept { //nolint:errorlint // the same one
			t.Errorf("%v: got %v", c.err, err)
		}
	}
}

// The error for the end of a connection has no text of the server, and client-go still recognizes it: it then watches
// again in place of listing again.
func TestDiscreet_EndOfConnection(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="SPOKEN"`,
		"SPOKEN: read: connection reset by peer", "SPOKEN: use of closed network connection",
	} {
		client := kubeconfig.Discreet(roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(errors.New(text)))}, nil
		}))
		request := testkit.Request(t, http.MethodGet, "https://example.com")
		response, err := client.RoundTrip(request)
		must(t, err)
		defer response.Body.Close()
		if _, err = response.Body.Read(make([]byte, 1)); !utilnet.IsProbableEOF(err) || strings.Contains(err.Error(), "SPOKEN") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
