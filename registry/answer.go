// SPDX-License-Identifier: Apache-2.0

package registry

import (
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

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// What an answer may be. client-go reads an answer into memory whole, where it takes two and a half
// times its size, and then makes objects of it, which for small ones take hundreds of times their
// size: three bytes of JSON are enough for a ConfigMap of 300. So an answer is bounded by its bytes,
// and by the objects in it.
const (
	// maxBody and maxListBody bound an answer, in bytes. A list of the largest size takes 200 MiB to
	// read.
	maxBody     = 64 << 20
	maxListBody = 80 << 20
	// maxRefusal bounds an answer that says no, in bytes: a Status, or the page of a proxy.
	maxRefusal = 1 << 20
	// maxEvent bounds one event of a watch, in bytes. client-go takes no larger one, but it would read
	// it to its end first.
	maxEvent = 16 << 20
	// maxItems is how many objects an answer may list; see chain.items.
	maxItems = 200_000
)

var (
	errRedirect = errors.New("the API server answered with a redirect, which is refused: " +
		"it would send the credentials elsewhere; put the final address into the kubeconfig")
	errUpgrade = fmt.Errorf("the API server switched to another protocol, which nobody asked for: %w",
		kubeconfig.ErrNotKubernetes)
	errBodyTooLarge = errors.New("the answer of the API server is larger than the hub accepts")
)

// classify says why a request to a remote failed. It is kubeconfig.Classify for what that does not know:
// the bounds of this package.
func classify(err error) (reason, message string) {
	const notHealthy = "NotHealthy"
	switch {
	case errors.Is(err, errBodyTooLarge):
		return notHealthy, "The API server sends more in one answer than the hub accepts; look for objects that are " +
			"huge or far too many, or let the modules watch less (spec.namespaces)."
	case errors.Is(err, errDocumentTooLarge):
		return notHealthy, "The API server says that it serves far more resources than the hub accepts; " +
			"check that the server's URL is that of an API server, and remove CRDs that nobody needs."
	case errors.Is(err, errConnections):
		return notHealthy, "The server closes every connection before it has answered; " +
			"look at whatever stands between the hub and it."
	}
	return kubeconfig.Classify(err)
}

// check refuses and amends what a remote may not ask of the hub.
func check(r *http.Request, response *http.Response, kind requestKind) error {
	code := response.StatusCode
	switch {
	case code == http.StatusSwitchingProtocols && r.Header.Get("Upgrade") == "":
		return errUpgrade
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		return fmt.Errorf("%w (%w)", errRedirect, &kubeconfig.StatusError{Code: code})
	case response.ContentLength > maxBodyOf(response, kind):
		return errBodyTooLarge
	}
	if code == http.StatusOK {
		if err := checkType(r, response, kind); err != nil {
			return err
		}
	}
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		after = max(0, min(after, int(maxRetryAfter/time.Second)))
		response.Header.Set("Retry-After", strconv.Itoa(after))
	}
	return nil
}

// Media types of Kubernetes objects.
const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// checkType refuses objects in a form that the hub did not ask for. YAML takes many times the memory
// of JSON to read. A watch in a form that client-go does not know is never closed by it.
func checkType(r *http.Request, response *http.Response, kind requestKind) error {
	form := mediaType(response)
	isObjects := kind == kindList || isTrue(r.URL.Query().Get("watch"))
	switch {
	case form == typeJSON, form == typeProtobuf:
		return nil
	case isObjects, strings.HasSuffix(form, "yaml") && !strings.Contains(r.Header.Get("Accept"), "yaml"):
		return fmt.Errorf("the answer is neither JSON nor protobuf: %w", kubeconfig.ErrNotKubernetes)
	}
	return nil
}

// mediaType returns the media type of an answer, or "" if it has none that can be understood.
func mediaType(response *http.Response) string {
	form, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return form
}

func maxBodyOf(response *http.Response, kind requestKind) int64 {
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		return maxRefusal
	case kind == kindList:
		return maxListBody
	case kind == kindStream:
		return 1 << 62
	}
	return maxBody
}

// boundBody is the body of an answer. It ends one that brings too much with errBodyTooLarge, and
// releases the request's context when it is closed.
type boundBody struct {
	io.ReadCloser
	chain  *chain
	meter  meter // nil for an answer that is not measured
	left   int64
	counts bool // against what is in flight
	held   int64
	cancel context.CancelFunc
}

// meter sees what is read of a body, in order and in pieces of any size. It returns an error when
// that is too much.
type meter interface {
	read(piece []byte) error
}

func (c *chain) boundBody(response *http.Response, kind requestKind, cancel context.CancelFunc) *boundBody {
	return &boundBody{
		ReadCloser: response.Body, chain: c, meter: c.meterFor(response, kind), left: maxBodyOf(response, kind),
		counts: kind != kindStream, cancel: cancel,
	}
}

func (c *chain) meterFor(response *http.Response, kind requestKind) meter {
	items := c.items
	if items == 0 {
		items = maxItems
	}
	switch mediaType(response) {
	case typeJSON:
		return &jsonMeter{stream: kind == kindStream, maxItems: items}
	case typeProtobuf:
		if kind == kindStream {
			return &eventMeter{}
		}
		return &protobufMeter{maxItems: items}
	}
	return nil
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errBodyTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.counts {
		b.held += int64(n)
		if atomic.AddInt64(&b.chain.inFlight, int64(n)) > maxInFlight {
			return 0, fmt.Errorf("%w, together with others that it sends at the same time", errBodyTooLarge)
		}
	}
	if b.meter != nil {
		if err := b.meter.read(p[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}

// Close ends the answer. It may be called again.
func (b *boundBody) Close() error {
	defer b.cancel()
	atomic.AddInt64(&b.chain.inFlight, -b.held)
	b.held = 0
	return b.ReadCloser.Close()
}
