// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

var errEnded = errors.New("the process has ended")

// moment is a moment at which a process ends: before its write of that number is sent, or after it has been executed and
// before the response arrives. The zero moment never comes.
type moment struct {
	write int64
	after bool
}

// life is the state that all clients of one process share.
type life struct {
	end    moment
	bodies *bodies
	writes atomic.Int64
	once   sync.Once
	ended  chan struct{}
}

func newLife(end moment, b *bodies) *life {
	return &life{end: end, bodies: b, ended: make(chan struct{})}
}

func (l *life) stop() { l.once.Do(func() { close(l.ended) }) }

func (l *life) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// mortal is the transport of a process.
type mortal struct {
	*life
	next http.RoundTripper
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.hasEnded() {
		return nil, errEnded
	}
	if r.Method == http.MethodGet {
		return m.next.RoundTrip(r)
	}
	due := m.writes.Add(1) == m.end.write
	if due && !m.end.after {
		m.stop()
		return nil, errEnded
	}
	r, err := m.bodies.keep(r)
	if err != nil {
		return nil, err
	}
	response, err := m.next.RoundTrip(r)
	if !due {
		return response, err
	}
	m.stop()
	if err == nil {
		_ = response.Body.Close()
	}
	return nil, errEnded
}

// late is a transport whose watches deliver in the last third of each period only, so that a cache is behind the other cluster's.
type late struct{ http.RoundTripper }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" {
		response.Body = lateBody{response.Body}
	}
	return response, err
}

const latePeriod = 300 * time.Millisecond

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	now := time.Now()
	if opens := now.Truncate(latePeriod).Add(latePeriod * 2 / 3); now.Before(opens) {
		<-time.After(opens.Sub(now))
	}
	return n, err
}

// bodies are the bodies of the writes of all processes of a pair, by the ids that their requests have in the audit log: an
// audit log has no bodies of deletes.
type bodies struct {
	mu  sync.Mutex // protects the map
	all map[string][]byte
}

func (b *bodies) keep(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	id := string(uuid.NewUUID())
	r.Header.Set("Audit-ID", id)
	var data []byte
	if r.Body != nil {
		var err error
		if data, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(data))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[id] = data
	return r, nil
}

func (b *bodies) of(id string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[id]
}

// setting describes a pair; all processes of the pair have it in common.
type setting struct {
	up, down   *rest.Config // without limits, perhaps through proxies
	namespaces []string     // upstream
	target     string       // downstream
	oneToOne   bool
	identity   syncer.Identity
	bodies     *bodies
}

// agent returns the beginning of the user agent of the pair.
func (s *setting) agent() string { return "syncing/" + s.identity.Tenant + "/" }

// process is a running pair.
type process struct {
	*life
	cancel context.CancelFunc
	done   chan error
}

func (s *setting) begin(t testing.TB, end moment) *process {
	t.Helper()
	p := &process{life: newLife(end, s.bodies), done: make(chan error, 1)}
	of := func(c *rest.Config) *rest.Config {
		c = rest.CopyConfig(c)
		c.QPS, c.ContentType, c.UserAgent = -1, "application/json", s.agent()
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{life: p.life, next: next} })
		return c
	}
	manager, err := ctrl.NewManager(of(s.up), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Cache: only(s.namespaces...),
	})
	must(t, err)
	behind := of(s.down)
	behind.Wrap(func(next http.RoundTripper) http.RoundTripper { return late{next} })
	down, err := cluster.New(behind, func(o *cluster.Options) { o.Cache = only(s.target) })
	must(t, err)
	must(t, manager.Add(down))
	pair, err := syncer.NewPair(syncer.PairOptions{
		Name: "pair", Manager: manager, Upstream: syncer.InProcess(manager), Downstream: syncer.InProcess(down),
		Identity: s.identity, OneToOne: s.oneToOne,
	})
	must(t, err)
	must(t, configMaps(pair))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.cancel = cancel
	go func() { p.done <- manager.Start(ctx) }()
	t.Cleanup(p.kill)
	return p
}

func only(namespaces ...string) cache.Options {
	o := cache.Options{DefaultNamespaces: map[string]cache.Config{}}
	for _, name := range namespaces {
		o.DefaultNamespaces[name] = cache.Config{}
	}
	return o
}

// kill ends the process at once, and waits for its goroutines.
func (p *process) kill() {
	p.stop()
	p.cancel()
	p.done <- <-p.done // It stays there for the next call.
}

// configMaps registers a Copy of ConfigMaps with translated names.
func configMaps(p *syncer.Pair) error {
	return syncer.Register(p, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"},
		syncer.NewNamespaced[*corev1.ConfigMap](p.Identity(), syncer.TranslatorOptions{}),
		syncer.Options[*corev1.ConfigMap]{Select: isSelected})
}

// unselected is a label of originals without a copy.
const unselected = "example.com/unselected"

func isSelected(up *corev1.ConfigMap) bool {
	return up.Name != "kube-root-ca.crt" && up.Labels[unselected] == ""
}
