// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// watched returns the events that client-go makes from the body of a watch, which arrives one byte at a time.
func watched(t *testing.T, form, body string) []apiwatch.Event {
	t.Helper()
	answer := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {form}},
			Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(body))),
		}, nil
	})
	hidden := kubeconfig.CredentialOf(&rest.Config{BearerToken: canaryToken})
	client, err := rest.RESTClientFor(&rest.Config{
		Host: "https://example.com", APIPath: "/api", Transport: kubeconfig.Discreet(answer, hidden), QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	must(t, err)
	w, err := client.Get().Resource("configmaps").VersionedParams(&metav1.ListOptions{Watch: true}, scheme.ParameterCodec).Watch(t.Context())
	must(t, err)
	defer w.Stop()
	var all []apiwatch.Event
	for event := range w.ResultChan() {
		all = append(all, event)
	}
	return all
}

func eventIn(t *testing.T, form string, kind apiwatch.EventType, object runtime.Object) string {
	t.Helper()
	var raw bytes.Buffer
	if form == runtime.ContentTypeJSON {
		body, err := json.Marshal(map[string]any{"type": kind, "object": object})
		must(t, err)
		return string(body) // The object comes first in it.
	}
	must(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &raw))
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw.Bytes()}}
	body, err := event.Marshal()
	must(t, err)
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + string(body)
}

// The Status of an ERROR event has no text of the server but checked tokens, and client-go still recognizes its reason.
// Events with objects pass.
func TestDiscreet_ErrorEvent(t *testing.T) {
	t.Parallel()
	object := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Data: map[string]string{"quoted": `"{}\` + strings.Repeat("x", 1<<20)},
	}
	for _, form := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		failure := said()
		failure.Code, failure.Reason = http.StatusGone, metav1.StatusReasonExpired
		events := watched(t, form, eventIn(t, form, apiwatch.Added, object)+eventIn(t, form, apiwatch.Modified, object)+
			eventIn(t, form, apiwatch.Error, &failure)+eventIn(t, form, apiwatch.Deleted, object))
		if len(events) != 4 {
			t.Fatalf("%s: got %d events, want 4: %.300v", form, len(events), events)
		}
		for _, i := range []int{0, 1, 3} {
			if got, ok := events[i].Object.(*corev1.ConfigMap); !ok || got.Data["quoted"] != object.Data["quoted"] {
				t.Errorf("%s: event %d: got %s of %T, want the ConfigMap", form, i, events[i].Type, events[i].Object)
			}
		}
		err := apierrors.FromObject(events[2].Object)
		text := fmt.Sprintf("%v %+v", err, events[2].Object)
		if !apierrors.IsResourceExpired(err) || strings.Contains(text, "SPOKEN") || strings.Contains(text, canaryToken) {
			t.Errorf("%s: got error %s", form, text)
		}
		if want := `webhook "quota.example.com"`; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "410 Gone") {
			t.Errorf("%s: got error %v, want %s and 410 Gone in it", form, err, want)
		}
	}
}

// encodedEvent returns an event in protobuf with an object of a kind, its content, and an end that follows the content.
func encodedEvent(t *testing.T, kind, content, end string) string {
	t.Helper()
	object := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: "v1"}, Raw: []byte(content)}
	raw, err := object.Marshal()
	must(t, err)
	event := metav1.WatchEvent{Type: string(apiwatch.Added), Object: runtime.RawExtension{Raw: []byte("k8s\x00" + string(raw) + end)}}
	body, err := event.Marshal()
	must(t, err)
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + string(body)
}

// A body that is not an event ends the watch, and its text is not repeated.
func TestDiscreet_NoEvent(t *testing.T) {
	t.Parallel()
	sized := func(body string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body }
	for name, c := range map[string]struct{ form, body string }{
		"type":             {runtime.ContentTypeJSON, `{"type":"SPOKEN","object":{}}`},
		"two types":        {runtime.ContentTypeJSON, `{"type":"ADDED","object":{},"type":"SPOKEN"}`},
		"no type":          {runtime.ContentTypeJSON, `{"object":{"kind":"ConfigMap","apiVersion":"v1"}}`},
		"text":             {runtime.ContentTypeJSON, `"SPOKEN"`},
		"kind":             {runtime.ContentTypeJSON, `{"type":"ADDED","object":{"kind":"SPOKEN words","apiVersion":"v1"}}`},
		"kind, credential": {runtime.ContentTypeJSON, `{"type":"ADDED","object":{"kind":"` + canaryToken + `","apiVersion":"v1"}}`},
		"long":             {runtime.ContentTypeJSON, `{"type":"ERROR","object":{"message":"` + strings.Repeat("SPOKEN", 1<<20) + `"}}`},
		"space":            {runtime.ContentTypeJSON, strings.Repeat(" \n", 33<<10) + `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"}}`},
		"type, encoded":    {runtime.ContentTypeProtobuf, sized("\n\x06SPOKEN\x12\x02\n\x00")},
		"long, encoded":    {runtime.ContentTypeProtobuf, sized("\n\x05ERROR\x12" + strings.Repeat("SPOKEN", 1<<20))},
		"kind, encoded":    {runtime.ContentTypeProtobuf, encodedEvent(t, "SPOKEN words", strings.Repeat("x", 1<<10), "")},
		"kind, small":      {runtime.ContentTypeProtobuf, encodedEvent(t, "SPOKEN words", "", "")},
		"kind, long":       {runtime.ContentTypeProtobuf, encodedEvent(t, strings.Repeat("SPOKEN", 1<<10), "x", "")},
		"kind, at the end": {runtime.ContentTypeProtobuf, encodedEvent(t, "ConfigMap", strings.Repeat("x", 1<<10), "\n\x08\x12\x06SPOKEN")},
		"none, encoded":    {runtime.ContentTypeProtobuf, sized("SPOKEN")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := watched(t, c.form, c.body)
			if len(events) != 1 || events[0].Type != apiwatch.Error {
				t.Fatalf("got events %+.300v, want 1 ERROR event", events)
			}
			text := strings.ToLower(fmt.Sprintf("%+v", events[0].Object))
			if strings.Contains(text, "spoken") || strings.Contains(text, strings.ToLower(canaryToken)) || !strings.Contains(text, "not from a kubernetes") {
				t.Errorf("got error %.300s, want an error without text of the server", text)
			}
		})
	}
}
