// SPDX-License-Identifier: Apache-2.0

package natshub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr/funcr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	natstest "github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// degraded collects what a connection reports.
type degraded struct {
	mu              sync.Mutex // protects the fields
	reason, message string
	events          []string
}

func (d *degraded) set(reason, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reason, d.message = reason, message
}

func (d *degraded) event(_, reason, _, _ string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, reason)
}

func (d *degraded) wait(t *testing.T, reason, says string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.reason != reason || !strings.Contains(d.message, says) {
			return fmt.Errorf("got %s: %s, want %s with %q", d.reason, d.message, reason, says)
		}
		return nil
	})
}

func (d *degraded) waitEvents(t *testing.T, want ...string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if got := strings.Join(d.events, " "); got != strings.Join(want, " ") {
			return fmt.Errorf("got the events %s, want %v", got, want)
		}
		return nil
	})
}

// The state of the connection and of each bucket is reported: no server, a server that is away, a bucket that does not exist, a bucket
// that was restored. After Accept nothing is wrong, also if the counter of the canary is lower than before.
// Promise: NATS is away, or not configured: the hub runs, and says so.
func TestConnection_Reports(t *testing.T) {
	t.Parallel()
	none := &degraded{}
	c, _ := connect(t, natshub.Options{}, natshub.Environment{Degraded: none.set})
	testkit.Must(t, testkit.Err(c.Follow("things")))
	none.wait(t, natshub.ReasonNotConfigured, "--nats-url")

	server := natstest.Start(t)
	remote, namespace := namespaceFor(t)
	anchor := natshub.Anchor{Client: remote, Reader: remote, Namespace: namespace, Bucket: "things"}
	found := &degraded{}
	c, _ = connect(t, natshub.Options{URL: server.URL()}, natshub.Environment{
		Degraded: found.set, Event: found.event, AnchorOf: func(string) bucket.Anchor { return anchor },
	})
	b, err := c.Follow("things")
	testkit.Must(t, err)
	found.wait(t, natshub.ReasonBucketUnavailable, "bucket things is not followed")
	_, js := natstest.Connect(t, server.URL())
	testkit.Must(t, bucket.Create(t.Context(), js, bucket.Definition{Name: "things"}))
	found.wait(t, "", "")
	testkit.Eventually(t, func() error { return b.Absent("a") })
	for _, op := range []string{"", "PURGE"} {
		testkit.Must(t, testkit.Err(js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.things.a:b", Header: nats.Header{"KV-Operation": {op}}})))
		if op == "" {
			found.wait(t, natshub.ReasonInvalidKeys, "bucket things has 1 keys")
		}
	}
	found.wait(t, "", "")

	server.Kill()
	found.wait(t, natshub.ReasonUnavailable, "the buckets things")
	restore := server.Save()
	server.Restart()
	found.wait(t, "", "")
	describe := func() bucket.Description {
		t.Helper()
		d, err := bucket.Describe(t.Context(), js, "things", "hub")
		testkit.Must(t, err)
		return d
	}
	counter := describe().Identity.Counter // not lower than that of the backup
	testkit.Eventually(t, func() error {
		if now := describe().Identity.Counter; now <= counter {
			return fmt.Errorf("the counter is %d, want more than %d", now, counter)
		}
		return nil
	})
	testkit.Must(t, testkit.Err(js.Publish(t.Context(), "$KV.things.seen", nil))) // The hub has seen the canary before it.
	testkit.Eventually(t, func() error {
		if _, ok := b.Get("seen"); !ok {
			return errors.New("the copy is behind")
		}
		return nil
	})
	server.Kill()
	restore()
	server.Restart()
	found.wait(t, natshub.ReasonBucketChanged, "hub entity accept things")
	testkit.ErrorIs(t, b.Absent("a"), bucket.ErrChanged, "a key is absent from a bucket that is not accepted")
	testkit.Eventually(t, func() error { // The server may have to settle.
		_, err := natshub.Accept(t.Context(), js, anchor, "hub")
		return err
	})
	found.wait(t, "", "")
	testkit.Eventually(t, func() error { return b.Absent("a") })
	found.waitEvents(t, natshub.ReasonBucketChanged, "BucketAccepted")

	server.Kill() // A further list does not ask for the bucket of before.
	server.Restart()
	testkit.Eventually(t, func() error { return b.Absent("a") })
	testkit.Eventually(t, func() error {
		if _, err := natshub.Accept(t.Context(), js, natshub.Anchor{Bucket: "none"}, "hub"); !errors.Is(err, bucket.ErrNotFound) {
			return fmt.Errorf("a bucket that does not exist is accepted: %w", err)
		}
		return nil
	})
}

// An account that is full, and a permission that is missing, are a state of the connection, and end with it. While writes are refused one
// in each beat waits for the server.
// Promise: the account is full, or a permission to write is missing: the module nats is Degraded, and one write in each beat waits for the server.
func TestConnection_WritesRefused(t *testing.T) {
	t.Parallel()
	configure := func(s *natstest.Server, permissions string) {
		s.Configure(fmt.Sprintf("no_auth_user: a\naccounts { A { jetstream { max_file: 300KB }, users: [ {user: a, password: a%s} ] } }", permissions))
		s.Restart()
	}
	for name, c := range map[string]struct {
		refuse func(*natstest.Server, jetstream.JetStream)
		says   string
		accept func(*natstest.Server, jetstream.JetStream)
	}{
		"a full account": {
			refuse: func(_ *natstest.Server, js jetstream.JetStream) {
				filler := natstest.Bucket(t, js, "filler")
				for _, size := range []int{2000, 1} {
					for n, err := 0, error(nil); err == nil; n++ {
						_, err = filler.Put(t.Context(), fmt.Sprint(size, ".", n), make([]byte, size))
					}
				}
			},
			says: "resource limits exceeded for account",
			accept: func(_ *natstest.Server, js jetstream.JetStream) {
				testkit.Must(t, js.DeleteKeyValue(t.Context(), "filler"))
			},
		},
		"a permission": {
			refuse: func(s *natstest.Server, _ jetstream.JetStream) {
				s.Kill()
				configure(s, `, permissions: {publish: {allow: ">", deny: ["$KV.things.>"]}}`)
			},
			says: `Permissions Violation for Publish to "$KV.things.`,
			accept: func(s *natstest.Server, _ jetstream.JetStream) {
				s.Kill()
				configure(s, "")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.New(t)
			configure(server, "")
			_, js := natstest.Connect(t, server.URL())
			natstest.Bucket(t, js, "things")
			found := &degraded{}
			conn, _ := connect(t, natshub.Options{URL: server.URL()}, natshub.Environment{Degraded: found.set})
			b, err := conn.Follow("things")
			testkit.Must(t, err)
			testkit.Eventually(t, func() error { _, err := b.Put(t.Context(), "a", nil, 0); return err })
			c.refuse(server, js)
			found.wait(t, natshub.ReasonWritesRefused, c.says)
			testkit.Eventually(t, func() error { // One write in each beat is sent.
				if _, err := b.Put(t.Context(), "b", nil, 0); !errors.Is(err, bucket.ErrRefused) || !errors.Is(err, bucket.ErrUnsent) {
					return fmt.Errorf("the error of a write is %w", err)
				}
				return nil
			})
			begun := time.Now()
			for n := range 5 {
				if _, err := b.Put(t.Context(), fmt.Sprint(n), nil, 0); !errors.Is(err, bucket.ErrRefused) && time.Since(begun) < time.Second {
					t.Errorf("the error of a write is %v", err)
				}
			}
			c.accept(server, js)
			testkit.Eventually(t, func() error { _, err := b.Put(t.Context(), "b", nil, 0); return err })
			found.wait(t, "", "")
		})
	}
}

func namespaceFor(t *testing.T) (client.Client, string) {
	t.Helper()
	remote := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	return remote, fleettest.Namespace(t, remote, "natshub-")
}

// A credential that the server refuses is used again without end, and one in a Secret is replaced when the Secret changes. Neither gets
// into the log.
// Promise: a credential is refused, and replaced: the hub connects again; no credential is in the log.
func TestConnection_Credentials(t *testing.T) {
	t.Parallel()
	good, bad := newSeed(t), newSeed(t)
	server := natstest.Start(t)
	server.Kill()
	server.Configure(fmt.Sprintf("authorization { users: [ {nkey: %s} ] }", good.public))
	server.Restart()
	var mu sync.Mutex
	var log strings.Builder
	data := map[string][]byte{"nats.nk": []byte(bad.seed)}
	secret := func(context.Context, string) (map[string][]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if data == nil {
			return nil, errors.New("the Secret does not exist")
		}
		return data, nil
	}
	found := &degraded{}
	c, _ := connect(t, natshub.Options{URL: server.URL(), Secret: "nats", CreateBuckets: true}, natshub.Environment{
		Secret: secret, Degraded: found.set,
		Logger: funcr.New(func(_, args string) { mu.Lock(); defer mu.Unlock(); log.WriteString(args + "\n") }, funcr.Options{Verbosity: 1}),
	})
	b, err := c.Follow("things")
	testkit.Must(t, err)
	found.wait(t, natshub.ReasonUnavailable, "")
	mu.Lock()
	data = map[string][]byte{"nats.nk": []byte(good.seed)}
	mu.Unlock()
	testkit.Eventually(t, func() error { return b.Absent("a") })
	mu.Lock()
	defer mu.Unlock()
	for _, seed := range []string{good.seed, bad.seed} {
		if strings.Contains(log.String(), seed) {
			t.Error("the log has a seed")
		}
	}
}

type seed struct{ seed, public string }

func newSeed(t *testing.T) seed {
	t.Helper()
	pair, err := nkeys.CreateUser()
	testkit.Must(t, err)
	text, err := pair.Seed()
	testkit.Must(t, err)
	public, err := pair.PublicKey()
	testkit.Must(t, err)
	return seed{string(text), public}
}

// In a hub the state is that of the hub part, the metrics are those of the hub, and an event is recorded on the ConfigMap with the
// identities. The hub part needs no permission that it does not declare.
func TestModule_Reports(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	user := registry.NewModule("user", registry.ModuleOptions{Remote: fx.Invoke(func(c *natshub.Connection) error {
		_, err := c.Follow("things")
		return err
	})})
	testkit.Must(t, bucket.Create(t.Context(), js, bucket.Definition{Name: "things"}))
	hub := hubtest.New(t, hubtest.Modules(natshub.Module, user), hubtest.Remotes("edge"), hubtest.NATS(server.URL()))
	hub.WaitHubPart("nats", state.ModuleRunning, state.ReasonRunning)
	anchor := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: natshub.AnchorName}
	testkit.Eventually(t, func() error { return hub.Client().Get(t.Context(), key, anchor) })
	testkit.Must(t, js.DeleteKeyValue(t.Context(), "things"))
	hub.WaitHubPart("nats", state.ModuleDegraded, natshub.ReasonBucketUnavailable)
	testkit.Must(t, bucket.Create(t.Context(), js, bucket.Definition{Name: "things"}))
	hub.WaitHubPart("nats", state.ModuleDegraded, natshub.ReasonBucketChanged)
	testkit.Eventually(t, func() error {
		var all eventsv1.EventList
		if err := hub.Client().List(t.Context(), &all, client.InNamespace(hubv1.DefaultNamespace)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == natshub.AnchorName && e.Reason == natshub.ReasonBucketChanged {
				return nil
			}
		}
		return errors.New("no event about the ConfigMap")
	})
}
