// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Responses that are not lists; for those see meter.Limiter.
const (
	// maxBody is in bytes, as is maxRefusal, for a code of 400 or more: a Status, or the page of a proxy.
	maxBody    = 64 << 20
	maxRefusal = 1 << 20
)

var (
	errRedirect = errors.New("the API server responded with a redirect, which the hub refuses: " +
		"it would send the credentials elsewhere; put the final address into the kubeconfig")
	errUpgrade = fmt.Errorf("the API server switched to another protocol without a request for it: %w",
		kubeconfig.ErrNotKubernetes)
)

// check also corrects headers that client-go would trust.
func (c *Chain) check(r *http.Request, response *http.Response, kind requestKind) error {
	code := response.StatusCode
	switch {
	case code == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "":
		return errUpgrade
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		return fmt.Errorf("%w (%w)", errRedirect, &kubeconfig.StatusError{Code: code})
	case response.ContentLength > c.maxBodyOf(response, kind):
		return meter.ErrTooLarge
	}
	if code >= http.StatusOK && code <= http.StatusPartialContent { // client-go decodes these
		if err := checkType(r, response, kind); err != nil {
			return err
		}
	}
	if form := MediaType(response); form == "" || strings.HasSuffix(form, "yaml") && code >= http.StatusBadRequest {
		response.Header.Set("Content-Type", "text/plain") // otherwise client-go decodes it as the type that it accepts
	}
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		after = max(0, min(after, int(maxRetryAfter/time.Second)))
		response.Header.Set("Retry-After", strconv.Itoa(after))
	}
	return nil
}

// checkType refuses objects in another media type than requested. YAML takes many times the memory of JSON, and
// client-go never closes a watch of an unknown type.
func checkType(r *http.Request, response *http.Response, kind requestKind) error {
	form := MediaType(response)
	isObjects := kind == kindList || isTrue(r.URL.Query().Get("watch"))
	switch {
	case form == runtime.ContentTypeJSON, form == runtime.ContentTypeProtobuf:
		return nil
	case isObjects, strings.HasSuffix(form, "yaml") && !strings.Contains(r.Header.Get("Accept"), "yaml"):
		return fmt.Errorf("the response is neither JSON nor protobuf: %w", kubeconfig.ErrNotKubernetes)
	}
	return nil
}

// MediaType returns "" for none or an invalid one.
func MediaType(response *http.Response) string {
	form, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return form
}

func (c *Chain) maxBodyOf(response *http.Response, kind requestKind) int64 {
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		return maxRefusal
	case kind == kindList:
		return c.Meter.List
	case kind == kindStream:
		return 1 << 62
	}
	return maxBody
}

// boundBody ends a body that is too large with meter.ErrTooLarge, delays one that grows too fast, and releases the
// request's context when it is closed.
type boundBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // Read has no parameter for it.
	cancel context.CancelFunc
	intake *meter.Limiter
	began  time.Time
	heard  *atomic.Int64 // see Chain.Heard; nil for responses that are not lists
	meter  meter.Meter   // nil for responses that are not decoded to objects
	left   int64
	silent *time.Timer // ends the response; nil for a response that may be silent
	over   atomic.Bool // silent has ended it
	// observer is of a watch, or nil.
	observer  WatchObserver
	bookmarks int  // that the watch has brought, counted up to two
	lists     bool // the watch begins with a list, which may not have ended
}

// MaxSilence is how long a watch may be silent. An API server sends a bookmark about once a minute if allowed; after
// three missing ones it no longer serves the watch, although the connection is open. client-go then continues with a
// new watch.
const MaxSilence = 3 * time.Minute

func (c *Chain) boundBody(r *http.Request, response *http.Response, kind requestKind, cancel context.CancelFunc) *boundBody {
	b := &boundBody{
		ReadCloser: response.Body, ctx: r.Context(), cancel: cancel, intake: c.Meter, began: time.Now(),
		meter: c.Meter.Meter(MediaType(response), kind == kindStream), left: c.maxBodyOf(response, kind),
	}
	b.lists = kind == kindStream && isTrue(r.URL.Query().Get("sendInitialEvents"))
	if (kind == kindList || b.lists) && response.StatusCode == http.StatusOK {
		b.heard = c.Heard
	}
	if kind == kindStream && isTrue(r.URL.Query().Get("allowWatchBookmarks")) {
		b.observer = ObserverOf(r.Context())
		b.silent = time.AfterFunc(MaxSilence, func() {
			b.over.Store(true)
			b.observer.Silent()
			cancel()
		})
	}
	return b
}

// enoughBookmarks prove that they come while nothing else happens.
const enoughBookmarks = 2

// note: a single bookmark may mark the end of the initial objects. What is cut in two is missed; others follow.
func (b *boundBody) note(p []byte) {
	const addedJSON, addedProtobuf = `"type":"ADDED"`, "\n\x05ADDED"
	if b.lists && (bytes.Contains(p, []byte(addedJSON)) || bytes.Contains(p, []byte(addedProtobuf))) {
		b.lists = b.observer.Added()
	}
	if b.bookmarks >= enoughBookmarks {
		return
	}
	const ofJSON, ofProtobuf = `"type":"BOOKMARK"`, "\n\bBOOKMARK"
	b.bookmarks += bytes.Count(p, []byte(ofJSON)) + bytes.Count(p, []byte(ofProtobuf))
	if b.bookmarks >= enoughBookmarks {
		b.observer.SendsBookmarks()
	}
}

func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		ExchangeOf(b.ctx).broke()
	}
	return n, err
}

func (b *boundBody) read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, meter.ErrTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.over.Load() {
		err = io.EOF
	}
	b.left -= int64(n)
	if b.heard != nil && n > 0 {
		b.noteHeard(time.Now())
	}
	if b.silent != nil && n > 0 {
		b.silent.Reset(MaxSilence)
		b.observer.Received()
		b.note(p[:n])
	}
	cost := int64(n) * meter.ReadingCost
	if b.meter != nil {
		if err := b.meter.Read(p[:n]); err != nil {
			return 0, err
		}
		cost += b.meter.Charged()
	}
	if err := b.intake.Wait(b.ctx, cost); err != nil {
		return 0, err
	}
	return n, err
}

// noteHeard is for lists. A streamed list continues as a watch, which proves nothing: an API server that accepts no
// requests may still send events.
func (b *boundBody) noteHeard(now time.Time) {
	if now.Sub(b.began) < listTimeout {
		b.heard.Store(now.UnixNano())
	}
}

// Close may be called again.
func (b *boundBody) Close() error {
	defer b.cancel()
	if b.silent != nil {
		b.silent.Stop()
	}
	return b.ReadCloser.Close()
}

// OnClose returns a body that calls end when it is closed, also again.
func OnClose(body io.ReadCloser, end func()) io.ReadCloser { return &closing{body, end} }

type closing struct {
	io.ReadCloser
	end func()
}

func (b *closing) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
