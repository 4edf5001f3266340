// SPDX-License-Identifier: Apache-2.0

package natshub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

func TestMain(m *testing.M) { os.Exit(hubtest.Main(m)) }

func connect(t *testing.T, o natshub.Options, e natshub.Environment) (c *natshub.Connection, stop func()) {
	t.Helper()
	e.HubID = "hub"
	c, err := natshub.New(o, e)
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return c, stop
}

// All callers share the copy of a bucket, and it follows whether it was requested before or after the start.
func TestFollow(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "things")
	c, _ := connect(t, natshub.Options{URL: server.URL()}, natshub.Environment{})
	one, err := c.Follow("things")
	testkit.Must(t, err)
	two, err := c.Follow("things")
	testkit.Must(t, err)
	if one != two {
		t.Error("two callers have two copies of one bucket")
	}
	testkit.ErrorIs(t, testkit.Err(c.Follow("no name")), bucket.ErrInvalidOptions)
	testkit.Must(t, testkit.Err(kv.Put(t.Context(), "a", []byte("1"))))
	testkit.Eventually(t, func() error {
		if _, ok := one.Get("a"); !ok {
			return fmt.Errorf("the copy is behind: %+v", one.Health())
		}
		return nil
	})
	testkit.NoError(t, c.Connected())
}

// A server that does not respond yet, and a hub without NATS, are no errors: the buckets are not complete, and say why.
func TestNew_WithoutServer(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, natshub.Options{}, natshub.Environment{})
	b, err := c.Follow("things")
	testkit.Must(t, err)
	testkit.Eventually(t, func() error {
		if h := b.Health(); h.Complete || !errors.Is(h.Err, natshub.ErrNotConfigured) {
			return fmt.Errorf("got %+v", h)
		}
		return nil
	})
	testkit.ErrorIs(t, testkit.Err(b.Put(t.Context(), "a", nil, 0)), natshub.ErrNotConfigured, "a write without NATS")
	testkit.ErrorIs(t, c.Connected(), natshub.ErrNotConfigured)

	server := nats.Start(t)
	server.Kill()
	c, _ = connect(t, natshub.Options{URL: server.URL(), CreateBuckets: true}, natshub.Environment{})
	if b, err = c.Follow("things"); err != nil {
		t.Fatal(err)
	}
	testkit.Fails(t, c.Connected(), "a server that does not run is connected")
	server.Restart()
	testkit.Eventually(t, func() error { return b.Absent("a") })
}

// Wrong options are errors, which repeat nothing of the files and of the address.
func TestNew_InvalidOptions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(file, []byte("SUSECRETSECRET"), 0o600))
	for name, o := range map[string]natshub.Options{
		"two credentials": {URL: "nats://127.0.0.1:1", CredentialsFile: file, NKeyFile: file},
		"no seed":         {URL: "nats://127.0.0.1:1", NKeyFile: file},
		"no authorities":  {URL: "nats://127.0.0.1:1", CAFile: file},
		"no file":         {URL: "nats://127.0.0.1:1", NKeyFile: file + "x"},
	} {
		_, err := natshub.New(o, natshub.Environment{HubID: "hub"})
		if !errors.Is(err, natshub.ErrInvalidOptions) || strings.Contains(err.Error(), "SUSECRET") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A bucket is created on first contact, and never again: an empty bucket in place of a lost one would seem to be healthy.
// Promise: a bucket that the hub knows does not exist: it is not created.
func TestCreateBuckets(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	remote, ns := namespaceFor(t)
	e := natshub.Environment{AnchorOf: func(name string) bucket.Anchor {
		return natshub.Anchor{Client: remote, Reader: remote, Namespace: ns, Bucket: name}
	}}
	o := natshub.Options{URL: server.URL(), CreateBuckets: true}
	c, stop := connect(t, o, e)
	names := []string{"one", "two"}
	for _, name := range names {
		b, err := c.Follow(name)
		testkit.Must(t, err)
		testkit.Eventually(t, func() error { return b.Absent("a") })
		testkit.Eventually(t, func() error { // Each has an entry of its own in the ConfigMap.
			_, ok, err := e.AnchorOf(name).Load(t.Context())
			if err == nil && !ok {
				err = fmt.Errorf("the identity of bucket %s is not saved", name)
			}
			return err
		})
	}
	stop()
	for _, name := range names {
		testkit.Must(t, js.DeleteKeyValue(t.Context(), name))
	}
	c, _ = connect(t, o, e)
	b, err := c.Follow("one")
	testkit.Must(t, err)
	testkit.Eventually(t, func() error {
		if h := b.Health(); h.Err == nil || !strings.Contains(h.Err.Error(), "has been there before") {
			return fmt.Errorf("got %+v", h)
		}
		return nil
	})
	testkit.ErrorIs(t, testkit.Err(js.KeyValue(t.Context(), "one")), jetstream.ErrBucketNotFound, "the bucket is created again")
}

// Nothing is written without the lease: no value, no canary, no identity.
// Promise: the hub asks its lease right before each write to NATS.
func TestGate(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "things")
	errGate := errors.New("no lease")
	c, _ := connect(t, natshub.Options{URL: server.URL()}, natshub.Environment{Gate: func() error { return errGate }})
	b, err := c.Follow("things")
	testkit.Must(t, err)
	testkit.Must(t, testkit.Err(kv.Put(t.Context(), "a", []byte("1"))))
	testkit.Eventually(t, func() error {
		if _, ok := b.Get("a"); !ok {
			return errors.New("the copy is behind")
		}
		return nil
	})
	testkit.ErrorIs(t, testkit.Err(b.Put(t.Context(), "b", []byte("1"), 0)), errGate)
	status, err := kv.Status(t.Context())
	testkit.Must(t, err)
	testkit.Equal(t, status.Values(), 1, "values")
}

// A write without a connection is not kept: it would arrive when another hub may have the lease.
// Promise: a write while the server is away does not arrive when the server is back.
func TestWrite_WithoutConnection(t *testing.T) {
	t.Parallel()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, "things")
	c, _ := connect(t, natshub.Options{URL: server.URL()}, natshub.Environment{})
	b, err := c.Follow("things")
	testkit.Must(t, err)
	put := func(key string) error {
		_, err := b.Put(t.Context(), key, []byte("1"), 0)
		if errors.Is(err, bucket.ErrConflict) {
			return nil // The response to an earlier try was lost.
		}
		return err
	}
	testkit.Eventually(t, func() error { return put("before") })
	server.Kill()
	testkit.Eventually(t, func() error {
		if c.Connected() == nil {
			return errors.New("the end of the server is not noticed yet")
		}
		return nil
	})
	testkit.Fails(t, put("meanwhile"), "a write without a connection")
	server.Restart()
	testkit.Eventually(t, func() error { return put("after") })
	testkit.ErrorIs(t, testkit.Err(kv.Get(t.Context(), "meanwhile")), jetstream.ErrKeyNotFound)
}

// A hub that has read the identity of a bucket before an operator accepted the bucket does not undo that when it saves. Other buckets
// are in the same ConfigMap.
func TestAnchor_KeepsAnAcceptance(t *testing.T) {
	t.Parallel()
	remote, ns := namespaceFor(t)
	anchor := natshub.Anchor{Client: remote, Reader: remote, Namespace: ns, Bucket: "things"}
	before := bucket.Identity{Created: time.Now().UTC(), Counter: 5}
	accepted := before
	accepted.Accepted = before.Created.Add(time.Second)
	testkit.Must(t, errors.Join(anchor.Save(t.Context(), before), anchor.Save(t.Context(), accepted)))
	if anchor.Save(t.Context(), before) == nil {
		t.Error("an older identity replaces one that was accepted")
	}
	other := anchor
	other.Bucket = "others"
	testkit.Must(t, other.Save(t.Context(), before))
	if id, _, err := anchor.Load(t.Context()); err != nil || !id.Accepted.Equal(accepted.Accepted) {
		t.Errorf("got %+v, %v, want %+v", id, err, accepted)
	}
}
