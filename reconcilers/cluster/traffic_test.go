// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// traffic counts the requests of a hub to its API server, and the calls of the reconciler to the registry.
type traffic struct {
	cluster.Remotes
	base http.RoundTripper

	mu      sync.Mutex     // protects the fields below
	reads   map[string]int // of Secrets, live, by name
	ensured map[registry.ClusterName]int
	applied map[string]int // writes of the status of a Cluster, by name
	patched map[string]int // other writes of a Cluster that exists, by name
	held    chan struct{}  // closed when watches of Secrets may continue; nil if they are not held
}

// newTrafficHub returns a hub and its traffic.
func newTrafficHub(t testing.TB, change func(*hubOptions)) (*hub, *traffic) {
	t.Helper()
	w := &traffic{reads: map[string]int{}, ensured: map[registry.ClusterName]int{}, applied: map[string]int{}, patched: map[string]int{}}
	h := newHub(t, func(o *hubOptions) {
		o.wrap = func(base http.RoundTripper) http.RoundTripper {
			w.base = base
			return w
		}
		o.remotes = func(r cluster.Remotes) cluster.Remotes {
			w.Remotes = r
			return w
		}
		if change != nil {
			change(o)
		}
	})
	return h, w
}

func (w *traffic) Ensure(name registry.ClusterName, c state.Desired) error {
	w.mu.Lock()
	w.ensured[name]++
	w.mu.Unlock()
	return w.Remotes.Ensure(name, c)
}

func (w *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	_, of, isSecret := strings.Cut(request.URL.Path, "/secrets")
	name := strings.TrimPrefix(of, "/")
	if isSecret && name != "" && request.Method == http.MethodGet {
		w.mu.Lock()
		w.reads[name]++
		w.mu.Unlock()
	}
	_, of, isCluster := strings.Cut(request.URL.Path, "/clusters/")
	if name, isStatus := strings.CutSuffix(of, "/status"); isCluster && request.Method == http.MethodPatch {
		w.mu.Lock()
		if isStatus {
			w.applied[name]++
		} else {
			w.patched[name]++
		}
		w.mu.Unlock()
	}
	response, err := w.base.RoundTrip(request)
	if err == nil && isSecret && request.URL.Query().Get("watch") != "" {
		response.Body = &heldBody{ReadCloser: response.Body, of: w, closed: make(chan struct{})}
	}
	return response, err
}

// reset sets all counts to zero.
func (w *traffic) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.reads)
	clear(w.applied)
}

// sum returns the number of reads of Secrets.
func (w *traffic) sum() (reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.reads {
		reads += n
	}
	return reads
}

func (w *traffic) ensuredOf(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ensured[registry.ClusterName(name)]
}

// appliedOf returns the number of times that the status of a Cluster was sent.
func (w *traffic) appliedOf(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied[name]
}

// hold holds back the responses of watches of Secrets until release is called.
func (w *traffic) hold() (release func()) {
	held := make(chan struct{})
	w.mu.Lock()
	w.held = held
	w.mu.Unlock()
	return sync.OnceFunc(func() { close(held) })
}

// heldBody is the body of a watch.
type heldBody struct {
	io.ReadCloser
	of     *traffic
	once   sync.Once
	closed chan struct{}
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	held := b.of.held
	b.of.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-b.closed:
		}
	}
	return n, err
}

func (b *heldBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}
