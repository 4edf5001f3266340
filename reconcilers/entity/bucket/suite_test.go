// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// stage is a server with a bucket, and a process that follows it.
type stage struct {
	server *nats.Server
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	anchor *anchor
	closed atomic.Bool // the gate
	bucket *bucket.Bucket
	stop   func()
}

var errGate = errors.New("this process has no lease")

func begin(t *testing.T) *stage {
	t.Helper()
	s := &stage{server: nats.Start(t), anchor: &anchor{}}
	_, s.js = nats.Connect(t, s.server.URL())
	s.kv = nats.Bucket(t, s.js, "things")
	s.process(t)
	return s
}

// process starts to follow the bucket, as a new process does.
func (s *stage) process(t *testing.T) {
	t.Helper()
	b, err := bucket.New(bucket.Options{Name: "things", JetStream: use(s.js), Writer: "hub", Anchor: s.anchor, Beat: beat, Gate: func() error {
		if s.closed.Load() {
			return errGate
		}
		return nil
	}})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	s.bucket = b
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(s.stop)
}

func (s *stage) put(t *testing.T, key, value string) {
	t.Helper()
	testkit.Must(t, testkit.Err(s.kv.Put(t.Context(), key, []byte(value))))
}

func (s *stage) wait(t *testing.T, key, value string) bucket.Entry {
	t.Helper()
	var found bucket.Entry
	testkit.Eventually(t, func() error {
		e, ok := s.bucket.Get(key)
		found = e
		if ok != (value != "") || string(e.Value) != value {
			return fmt.Errorf("key %s is %q, want %q; health %+v", key, e.Value, value, s.bucket.Health())
		}
		return nil
	})
	return found
}

// healthy waits until the bucket is complete.
func (s *stage) healthy(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, func() error { return s.bucket.Absent("no-such-key") })
}

// beat is the interval of canaries in tests.
const beat = 300 * time.Millisecond

func use(js jetstream.JetStream) func() (jetstream.JetStream, error) {
	return func() (jetstream.JetStream, error) { return js, nil }
}

type anchor = nats.Memory[bucket.Identity]
