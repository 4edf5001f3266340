// SPDX-License-Identifier: Apache-2.0

package natshub_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go"

	natstest "github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// The permissions of a hub are enough to follow entities, to write canaries and the status, and no more: it cannot write an entity. Those
// of a writer are enough to write entities, and no more: it cannot write the status, or another bucket.
// Promise: the user of the hub has no more permissions than are printed: the hub works, and cannot write an entity.
func TestPermissions(t *testing.T) {
	t.Parallel()
	hub, writer := newSeed(t), newSeed(t)
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	for _, name := range []string{"things", "things-status", "others"} {
		testkit.Must(t, bucket.Create(t.Context(), js, bucket.Definition{Name: name}))
	}
	server.Kill()
	server.Configure(fmt.Sprintf("authorization { users: [ {nkey: %s, permissions: %s}, {nkey: %s, permissions: %s} ] }",
		hub.public, natshub.HubPermissions("things"), writer.public, natshub.WriterPermissions("things")))
	server.Restart()

	c, _ := connect(t, natshub.Options{URL: server.URL(), NKeyFile: seedFile(t, hub)}, natshub.Environment{})
	things, err := c.Follow("things")
	testkit.Must(t, err)
	status, err := c.Follow(entity.StatusBucket("things"))
	testkit.Must(t, err)
	testkit.Eventually(t, func() error { return errors.Join(things.Absent("a"), status.Absent("a")) })
	testkit.Must(t, testkit.Err(status.Put(t.Context(), "a", []byte(`{}`), 0)))
	testkit.Must(t, testkit.Err(status.Read(t.Context(), "a")))
	testkit.Fails(t, testkit.Err(things.Put(t.Context(), "a", []byte(`{}`), 0)), "the hub may write an entity")

	_, writing, err := natshub.Dial(t.Context(), natshub.Options{URL: server.URL(), NKeyFile: seedFile(t, writer)}, natshub.Environment{HubID: "cli"})
	testkit.Must(t, err)
	t.Cleanup(writing.Conn().Close)
	kv, err := writing.KeyValue(t.Context(), "things")
	testkit.Must(t, err)
	revision, err := kv.Create(t.Context(), "a", []byte(`{"text":"x"}`))
	testkit.Must(t, err)
	testkit.Must(t, testkit.Err(kv.Update(t.Context(), "a", []byte(`{"text":"y"}`), revision)))
	testkit.Eventually(t, func() error {
		if e, ok := things.Get("a"); !ok || string(e.Value) != `{"text":"y"}` {
			return fmt.Errorf("the hub has %s", e.Value)
		}
		d, err := bucket.Describe(t.Context(), writing, "things", "hub")
		if err == nil && d.Identity.Counter < 2 {
			err = fmt.Errorf("the canary is %d", d.Identity.Counter)
		}
		return err
	})
	e, _ := things.Get("a")
	testkit.Must(t, things.Check(t.Context(), bucket.Birth{Revision: e.Revision, Time: e.Created}))
	if err := writing.Conn().Publish("$KV.things-status.a", nil); err == nil {
		err = writing.Conn().Flush()
		if testkit.Must(t, err); writing.Conn().LastError() == nil || !errors.Is(writing.Conn().LastError(), nats.ErrPermissionViolation) {
			t.Errorf("a writer may write the status: %v", writing.Conn().LastError())
		}
	}
	testkit.Fails(t, testkit.Err(writing.KeyValue(t.Context(), "others")), "a writer may open another bucket")
}

func seedFile(t *testing.T, s seed) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed")
	testkit.Must(t, os.WriteFile(path, []byte(s.seed), 0o600))
	return path
}
