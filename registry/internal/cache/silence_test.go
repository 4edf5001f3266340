// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// Silence makes an informer Stale only if the API server has sent bookmarks before: kube-apiserver sends no bookmarks
// for Events, except the bookmark at the end of the initial objects.
func TestStock_Silence(t *testing.T) {
	t.Parallel()
	const initial = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	for name, c := range map[string]struct {
		minutes []string // the data of each minute
		stale   bool
	}{
		"no bookmarks":        {nil, false},
		"events":              {[]string{`{"type":"ADDED","object":{"note":"\"type\":\"BOOKMARK\""}}` + "\n", "{}\n"}, false},
		"the initial one":     {[]string{initial}, false},
		"bookmarks":           {[]string{initial, `{"type":"BOOKMARK","object":{}}` + "\n"}, true},
		"bookmarks, protobuf": {[]string{"\x00\x00\x00\x0c\n\bBOOKMARK\x12\x00", "\x00\x00\x00\x0c\n\bBOOKMARK\x12\x00"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := newTestInformer(t, ctx)
				watchFor(t, s, c.minutes)
				s.watchEnded()
				since, why := blockedNow(s)
				if (why.text == causeSilent) != c.stale || c.stale && !since.Equal(time.Now()) {
					t.Errorf("got blocked since %s: %q", since, why.text)
				}
			})
		})
	}
}

func watchFor(t *testing.T, s *Informer, minutes []string) {
	t.Helper()
	lines, body := io.Pipe()
	base := testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
		for i, text := range minutes {
			time.AfterFunc(time.Duration(i+1)*time.Minute, func() { _, _ = io.Copy(body, strings.NewReader(text)) })
		}
		context.AfterFunc(r.Context(), func() { body.CloseWithError(r.Context().Err()) })
		form := runtime.ContentTypeJSON
		if len(minutes) > 0 && strings.HasPrefix(minutes[0], "\x00") {
			form = runtime.ContentTypeProtobuf
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {form}}, Body: lines}, nil
	})
	ctx := transport.WithObserver(t.Context(), s)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://remote/api/v1/events?watch=true&allowWatchBookmarks=true", nil)
	must(t, err)
	began := time.Now()
	response, err := (&transport.Chain{Base: base, Meter: meter.NewLimiter(meter.NewSchemas(nil), 256<<20), Fence: t.Context(), Timeout: time.Second}).RoundTrip(r)
	must(t, err)
	s.watching()
	_, err = io.Copy(io.Discard, response.Body)
	if want := time.Duration(len(minutes))*time.Minute + transport.MaxSilence; err != nil || time.Since(began) != want {
		t.Errorf("watch ended with error %v after %s, want an end after %s", err, time.Since(began), want)
	}
	response.Body.Close()
}

func blockedNow(s *Informer) (time.Time, cause) {
	s.notes.Lock()
	defer s.notes.Unlock()
	return s.freshness.blocked(time.Now())
}

// newTestInformer returns an informer that does not run, of an app that lives as long as ctx.
func newTestInformer(t *testing.T, ctx context.Context) *Informer { //nolint:revive // context-as-argument: the test comes first.
	t.Helper()
	return newInformer(newBudget(someOptions(ctx, scheme.Scheme, nil)), &corev1.Event{})
}
