// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if text := os.Getenv(variable); text != "" {
		if err := runProcess(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // This process is a hub and no test.
		}
		return
	}
	fleettest.AtOnce(3)
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const hubID = "hub"

var must, eventually = testkit.Must, testkit.Eventually

func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.NoError(t, <-done)
	})
}

// stage has a NATS server, and a remote with a namespace for the test.
type stage struct {
	server     *nats.Server
	url        string // of the server, or of a proxy to it
	js         jetstream.JetStream
	remote     client.Client
	kubeconfig string
	namespace  string
}

func newStage(t *testing.T, servers ...*nats.Server) *stage {
	t.Helper()
	if len(servers) == 0 {
		servers = append(servers, nats.Start(t))
	}
	s := &stage{server: servers[0], url: servers[0].URL()}
	_, s.js = nats.Connect(t, s.server.URL())
	cluster := fleettest.Clusters(t, "remote")[0]
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(s.kubeconfig, cluster.Kubeconfig(), 0o600))
	s.remote = fleettest.Client(t, cluster)
	s.namespace = fleettest.Namespace(t, s.remote, "entities-")
	s.createBuckets(t, len(servers))
	return s
}

func (s *stage) createBuckets(t *testing.T, replicas int) {
	t.Helper()
	for _, name := range []string{ordersBucket, entity.StatusBucket(ordersBucket)} {
		eventually(t, func() error {
			err := bucket.Create(t.Context(), s.js, bucket.Definition{Name: name, Replicas: replicas})
			if errors.Is(err, bucket.ErrConflict) {
				return nil
			}
			return err
		})
	}
}

// onOrders calls f with the bucket until it succeeds: a server that was started a moment ago may refuse requests.
func (s *stage) onOrders(t *testing.T, f func(kv jetstream.KeyValue) error) {
	t.Helper()
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		kv, err := s.js.KeyValue(ctx, ordersBucket)
		if err != nil {
			return err
		}
		return f(kv)
	})
}

func (s *stage) put(t *testing.T, key, text string) {
	t.Helper()
	s.onOrders(t, func(kv jetstream.KeyValue) error {
		_, err := kv.Put(t.Context(), key, fmt.Appendf(nil, `{"text":%q}`, text))
		return err
	})
}

func (s *stage) delete(t *testing.T, key string) {
	t.Helper()
	s.onOrders(t, func(kv jetstream.KeyValue) error { return kv.Delete(t.Context(), key) })
}

// purge removes a key without a marker.
func (s *stage) purge(t *testing.T, key string) {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), "KV_"+ordersBucket)
	must(t, err)
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+ordersBucket+"."+key)))
}

// converge waits until the remote has exactly these orders, by their texts, each once.
func (s *stage) converge(t *testing.T, want map[string]string) time.Duration {
	t.Helper()
	return eventually(t, func() error {
		found, err := s.made(t)
		if err != nil {
			return err
		}
		for key, text := range want {
			if found[key] != text {
				return fmt.Errorf("order %s is %q, want %q", key, found[key], text)
			}
		}
		if len(found) != len(want) {
			return fmt.Errorf("there are %d orders, want %d: %v", len(found), len(want), found)
		}
		return nil
	})
}

// made returns the orders that the remote has.
func (s *stage) made(t *testing.T) (map[string]string, error) {
	t.Helper()
	label, value := entity.Marks{Prefix: entity.DefaultPrefix, Hub: hubID, Kind: "Order", Bucket: ordersBucket}.KindLabel()
	var all corev1.ConfigMapList
	err := s.remote.List(t.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{label: value})
	found := map[string]string{}
	for _, c := range all.Items {
		if c.DeletionTimestamp == nil {
			found[c.Name] = c.Data["text"]
		}
	}
	return found, err
}

func orders(n int, text string) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("o%d", i)] = text
	}
	return all
}

func (s *stage) putAll(t *testing.T, all map[string]string) {
	t.Helper()
	for key, text := range all {
		s.put(t, key, text)
	}
}
