// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// inPieces reads a text in pieces whose sizes it draws.
type inPieces struct {
	text string
	size func() int
}

func (r *inPieces) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.size())], r.text)
	r.text = r.text[n:]
	return n, nil
}

// The events of a watch in protobuf pass unchanged, and an ERROR event is rewritten, whatever the sizes of the pieces in which
// they arrive and are read.
func TestDiscreet_EventsInPieces(t *testing.T) {
	t.Parallel()
	form, failure := runtime.ContentTypeProtobuf, said()
	failure.Code = http.StatusGone
	bad := eventIn(t, form, apiwatch.Error, &failure)
	read := func(body string, into, size func() int) string {
		answer := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {form}},
				Body: io.NopCloser(&inPieces{body, size}),
			}, nil
		})
		request := testkit.Request(t, http.MethodGet, "https://example.com/api/v1/configmaps?watch=1")
		response, err := kubeconfig.Discreet(answer).RoundTrip(request)
		must(t, err)
		defer response.Body.Close()
		var all strings.Builder
		for {
			p := make([]byte, into())
			n, err := response.Body.Read(p)
			all.Write(p[:n])
			if err == io.EOF {
				return all.String()
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", all.Len(), err)
			}
		}
	}
	whole := func() int { return 1 << 20 }
	rewritten := read(bad, whole, whole)
	if rewritten == bad || !strings.Contains(rewritten, "410 Gone") {
		t.Fatalf("got ERROR event %q, want one without the text of the server", rewritten)
	}
	rapid.Check(t, func(r *rapid.T) {
		var body, want strings.Builder
		for range rapid.IntRange(1, 6).Draw(r, "events") {
			event := bad
			if rapid.Bool().Draw(r, "plain") {
				event = eventIn(t, form, apiwatch.Modified, &corev1.ConfigMap{
					TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
					Data:     map[string]string{"text": strings.Repeat("x", rapid.IntRange(0, 5000).Draw(r, "size"))},
				})
				want.WriteString(event)
			} else {
				want.WriteString(rewritten)
			}
			body.WriteString(event)
		}
		sizes := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 9000))
		draw := func(name string) func() int {
			size := sizes.Draw(r, name) // One size for all: a body has thousands of pieces.
			return func() int { return size }
		}
		if got := read(body.String(), draw("into"), draw("pieces")); got != want.String() {
			r.Fatalf("got %d bytes, want %d: %.200q", len(got), want.Len(), got)
		}
	})
}

// counted counts the reads of a body.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// A watch reads the events in protobuf that have arrived at once, and waits for the next one without a buffer.
func TestDiscreet_ReadsManyEventsAtOnce(t *testing.T) {
	t.Parallel()
	const events = 10
	event := eventIn(t, runtime.ContentTypeProtobuf, apiwatch.Modified, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Data: map[string]string{"text": strings.Repeat("x", 2000)},
	})
	from := &counted{Reader: strings.NewReader(strings.Repeat(event, events))}
	answer := roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}, Body: io.NopCloser(from),
		}, nil
	})
	response, err := kubeconfig.Discreet(answer).RoundTrip(testkit.Request(t, http.MethodGet, "https://example.com/api/v1/configmaps?watch=1"))
	must(t, err)
	defer response.Body.Close()
	for range events { // as client-go does
		must(t, testkit.Err(io.ReadFull(response.Body, make([]byte, 4))))
		must(t, testkit.Err(io.ReadFull(response.Body, make([]byte, len(event)-4))))
	}
	testkit.Equal(t, from.reads, 2, "reads of the length of the first event, and of the rest")
}
