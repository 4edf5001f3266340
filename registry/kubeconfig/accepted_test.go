// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// The error that client-go makes from a response with status 200 has no text of the response.
func TestDiscreet_AcceptedWithWords(t *testing.T) {
	t.Parallel()
	failure := said()
	asJSON, err := json.Marshal(failure)
	must(t, err)
	var asProtobuf bytes.Buffer
	must(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&failure, &asProtobuf))
	for name, c := range map[string]struct{ form, body string }{
		"failure":            {runtime.ContentTypeJSON, string(asJSON)},
		"protobuf":           {runtime.ContentTypeProtobuf, asProtobuf.String()},
		"escaped":            {runtime.ContentTypeJSON, `{"message":"SPOKEN","KIND":"\u0053tatus","apiVersion":"v1"}`},
		"two statuses":       {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","status":"Failure","Status":"Success","message":"SPOKEN"}`},
		"two, success first": {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","status":"Success","STATUS":"Failure","message":"SPOKEN"}`},
		"two, the same key":  {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"SPOKEN","status":"Failure"}`},
		"two, one no text":   {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"SPOKEN","status":null}`},
		"success of another": {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","Status":"Success","message":"SPOKEN"}`},
		"two kinds":          {runtime.ContentTypeJSON, `{"kind":"ConfigMap","Kind":"Status","apiVersion":"v1","message":"SPOKEN"}`},
		"two versions":       {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"v1","API\u0056ersion":"x.example.com/v1","message":"SPOKEN"}`},
		"another group":      {runtime.ContentTypeJSON, `{"kind":"Status","apiVersion":"x.example.com/v1","message":"SPOKEN"}`},
		"kind":               {runtime.ContentTypeJSON, `{"kind":"SPOKEN words","apiVersion":"v1"}`},
		"kind, credential":   {runtime.ContentTypeJSON, `{"kind":"` + canaryToken + `","apiVersion":"v1"}`},
		"version":            {runtime.ContentTypeJSON, `{"kind":"ConfigMap","apiVersion":"SPOKEN"}`},
		"type":               {"application/SPOKEN", `{}`},
		"type, credential":   {"application/" + canaryToken, `{}`},
		"type, not readable": {"SPOKEN, SPOKEN", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := refused(t, http.StatusOK, c.form, []byte(c.body))
			if err == nil || strings.Contains(strings.ToLower(err.Error()), "spoken") || strings.Contains(err.Error(), canaryToken) {
				t.Errorf("got error %v, want an error without text of the response", err)
			}
			if !strings.HasPrefix(name, "type") && !errors.Is(err, kubeconfig.ErrNotKubernetes) {
				t.Errorf("got error %v, want ErrNotKubernetes", err)
			}
		})
	}
}

// A response for an object that has the name of a subresource is checked like other responses.
func TestDiscreet_NamedProxy(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/v1/namespaces/x/configmaps/proxy", "/api/v1/namespaces/proxy/pods", "/apis/example.com/v1/proxy",
		"/api/v1/namespaces/x/configmaps/proxy/apis/example.com/v1/clusters/y/proxy",
	} {
		client := kubeconfig.Discreet(roundTrip(func(*http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(`{"kind":"SPOKEN words"}`))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
		}))
		request := testkit.Request(t, http.MethodGet, "https://example.com"+path)
		response, err := client.RoundTrip(request)
		must(t, err)
		testkit.ErrorIs(t, testkit.Err(io.ReadAll(response.Body)), kubeconfig.ErrNotKubernetes, path)
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A response that is not an error passes unchanged, except for unknown media types and parameters: objects, a Status of
// success, watches, and responses from behind a proxy of the remote.
func TestDiscreet_Accepted(t *testing.T) {
	t.Parallel()
	hidden := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	const discovery = "application/json; as=APIGroupDiscoveryList; g=apidiscovery.k8s.io; v=v2"
	failure, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusFailure})
	must(t, err)
	var largeProtobuf bytes.Buffer
	must(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(&corev1.ConfigMap{
		Data: map[string]string{"x": strings.Repeat("x", 1<<20)},
	}, &largeProtobuf))
	large := `{"kind":"Foo-Bar","apiVersion":"a.b.c/v1-2","data":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, c := range []struct{ path, form, want, body string }{
		{"/api/v1/pods", "application/json; charset=utf-8", "", `{"kind":"PodList","apiVersion":"v1"}`},
		{"/api/v1/pods", "application/json;x=SPOKEN", "application/json", `{}`},
		{"/api/v1/pods/x", "application/json", "", `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
		{"/apis/example.com/v1/states/x", "application/json", "", `{"kind":"Status","apiVersion":"example.com/v1","status":{"status":1}}`},
		{"/apis", discovery, "", large},
		{"/api/v1/configmaps/x", runtime.ContentTypeProtobuf, "", largeProtobuf.String()},
		{"/version", "application/json", "", `{"gitVersion":"v1.36.0"}`},
		{"/logs", "text/plain", "", string(failure)},
		{"/api/v1/pods?watch=true", "application/json", "", `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","x":"\\"{"}}` + "\n"},
		{"/api/v1/pods/x/log?follow=true", "text/plain", "", string(failure)},
		{"/api/v1/namespaces/x/services/y/proxy/z", "image/png", "", string(failure)},
		{"/api/v1/nodes/y/proxy/z", "application/json", "", string(failure)},
		{"/api/v1/nodes/y/proxy", canaryToken + "/x", "application/octet-stream", string(failure)},
		{"/apis/example.com/v1/clusters/y/proxy/api/v1", "SPOKEN, SPOKEN", "application/octet-stream", string(failure)},
		{"/api/v1/namespaces/x/services/y/proxy/apis/example.com/v1/z", "application/json", "", string(failure)},
		{"/apis/example.com/v1/clusters/y/proxy/api/v1/pods", "application/json", "", string(failure)},
		{"/metrics", "", "text/plain", "x 1"},
		{"/api/v1/pods", "application/yaml", "application/octet-stream", "kind: Status"},
	} {
		client := kubeconfig.Discreet(roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.form}}, Body: io.NopCloser(strings.NewReader(c.body))}, nil
		}), hidden)
		request := testkit.Request(t, http.MethodGet, "https://example.com"+c.path)
		response, err := client.RoundTrip(request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		if c.want == "" {
			c.want = c.form
		}
		if got := response.Header.Get("Content-Type"); err != nil || string(body) != c.body || got != c.want {
			t.Errorf("%s: got %v, %q, %d bytes, want %q, %d bytes", c.path, err, got, len(body), c.want, len(c.body))
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
