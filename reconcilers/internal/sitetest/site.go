// SPDX-License-Identifier: Apache-2.0

// Package sitetest is the test kit of pipeline and guard: a namespace of a real API server for each test, managers in
// it, waiting, and a journal. The tests start the API server and install its kinds.
package sitetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Patience bounds waits that normally take a second or two.
const Patience = time.Minute

// Site is a namespace of an API server, with a client that reads live.
type Site struct {
	client.WithWatch

	T         testing.TB
	Namespace string
	config    *rest.Config
}

// New returns a client for an API server, in a namespace of its own.
func New(t testing.TB, config *rest.Config, scheme *runtime.Scheme) *Site {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	testkit.Must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme})
	testkit.Must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "site-"}}
	testkit.Must(t, direct.Create(t.Context(), namespace))
	return &Site{WithWatch: direct, T: t, Namespace: namespace.Name, config: config}
}

// Key returns the name of an object in the namespace.
func (s *Site) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.Namespace, Name: name}
}

// Eventually waits until f returns no error.
func (s *Site) Eventually(f func() error) {
	s.T.Helper()
	testkit.Eventually(s.T, f)
}

// Manager returns a manager whose cache contains the objects of the namespace.
func (s *Site) Manager() ctrl.Manager {
	s.T.Helper()
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: s.Scheme(), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}},
	})
	testkit.Must(s.T, err)
	return mgr
}

// As returns the site with managers that impersonate a user, who has the permissions that the test grants.
func (s *Site) As(user string) *Site {
	other := *s
	other.config = rest.CopyConfig(s.config)
	other.config.Impersonate.UserName = user
	return &other
}

// Run runs a manager until the test ends or stop is called.
func (s *Site) Run(mgr ctrl.Manager) (stop func()) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.T.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			s.T.Errorf("the manager ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.T.Cleanup(stop)
	return stop
}
