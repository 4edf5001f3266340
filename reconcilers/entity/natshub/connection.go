// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

var (
	// ErrNotConfigured is the error of a hub without NATS.
	ErrNotConfigured = fmt.Errorf("%w; set the NATS options of the hub", bucket.ErrNoServer)
	// ErrNotRunning is the error before Run and after it.
	ErrNotRunning = errors.New("the connection to NATS is not made yet, or is closed")
	// ErrInvalidOptions means that Options cannot be used.
	ErrInvalidOptions = errors.New("invalid options of the connection to NATS")
)

// Connection is the connection of a hub. Make one with New; Run keeps it.
type Connection struct {
	options     Options
	environment Environment
	client      []nats.Option

	mu      sync.Mutex
	js      jetstream.JetStream // may be nil
	err     error               // why js is nil
	buckets map[string]*bucket.Bucket
	reports map[*bucket.Bucket]*entity.StatusStore
	start   func(*bucket.Bucket) // nil unless Run runs
}

// New opens nothing. The error wraps ErrInvalidOptions, and is about the options or the files that they name.
func New(o Options, e Environment) (*Connection, error) {
	c := &Connection{options: o, environment: e, buckets: map[string]*bucket.Bucket{}, reports: map[*bucket.Bucket]*entity.StatusStore{}}
	if err := o.checkURL(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	if o.URL == "" {
		return c, nil
	}
	var err error
	if c.client, err = o.client(e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	return c, nil
}

// Dial connects once, for a tool, within ctx and five seconds. The caller must close the connection.
func Dial(ctx context.Context, o Options, e Environment) (*nats.Conn, jetstream.JetStream, error) {
	c, err := New(o, e)
	if err != nil {
		return nil, nil, err
	}
	if o.URL == "" {
		return nil, nil, ErrNotConfigured
	}
	timeout := dialTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end))
	}
	c.client = append(c.client, nats.RetryOnFailedConnect(false), nats.Timeout(timeout))
	return c.connect()
}

// connect does not wait for a server: the client tries again without end.
func (c *Connection) connect(further ...nats.Option) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(c.options.URL, slices.Concat(c.client, further)...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS: %w", err)
	}
	js, err := jetstream.New(conn)
	if c.options.Domain != "" {
		js, err = jetstream.NewWithDomain(conn, c.options.Domain)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return conn, js, nil
}

func (c *Connection) jetStream() (jetstream.JetStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.options.URL == "":
		return nil, ErrNotConfigured
	case c.js == nil:
		return nil, cmp.Or(c.err, ErrNotRunning)
	}
	return c.js, nil
}

// Follow returns the copy of a bucket, which all callers share. It does not wait: see bucket.Bucket.Health.
func (c *Connection) Follow(name string) (*bucket.Bucket, error) {
	o := bucket.Options{Name: name}
	if c.environment.AnchorOf != nil {
		o.Anchor = c.environment.AnchorOf(name)
	}
	return c.follow(o)
}

// Status returns the store for entity.Options.Status, of the bucket that entity.StatusBucket names, which may be
// restored or made again: the hub writes the status again. All callers share it.
func (c *Connection) Status(name string) (*entity.StatusStore, error) {
	b, err := c.follow(bucket.Options{Name: entity.StatusBucket(name), Disposable: true})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reports[b] == nil {
		c.reports[b] = entity.NewStatusStore(b)
	}
	return c.reports[b], nil
}

func (c *Connection) follow(o bucket.Options) (*bucket.Bucket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := o.Name
	if b, ok := c.buckets[name]; ok {
		return b, nil
	}
	o.JetStream, o.Writer, o.Gate = c.jetStream, c.environment.HubID, c.environment.Gate
	o.Create, o.Logger = c.options.CreateBuckets, c.environment.Logger
	b, err := bucket.New(o)
	if err != nil {
		return nil, err
	}
	c.buckets[name] = b
	if c.start != nil {
		c.start(b)
	}
	return b, nil
}

// Connected returns an error while the connection is down, and for a hub without NATS.
func (c *Connection) Connected() error {
	js, err := c.jetStream()
	if err != nil {
		return err
	}
	if conn := js.Conn(); !conn.IsConnected() {
		return fmt.Errorf("NATS is not connected: %s", conn.Status())
	}
	return nil
}

// Run connects and keeps all copies up to date, until ctx ends and no goroutine runs. What the client refuses, such
// as a file that is being replaced, is tried again and reported.
func (c *Connection) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	start := func(b *bucket.Bucket) {
		running.Go(func() { b.Run(ctx) })
	}
	c.mu.Lock()
	c.start = start
	for _, b := range c.buckets {
		start(b)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.start = nil
	}()
	running.Go(func() { c.observe(ctx) })
	running.Go(func() { c.tidy(ctx) })
	c.keep(ctx)
	return nil
}

// keep follows the credential in the Secret.
func (c *Connection) keep(ctx context.Context) {
	if c.options.URL == "" {
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		credential, data, err := c.credential(ctx)
		var conn *nats.Conn
		var js jetstream.JetStream
		if err == nil {
			conn, js, err = c.connect(credential...)
		}
		if err != nil {
			c.use(nil, err)
			pause(ctx, maxWait)
			continue
		}
		c.use(js, nil)
		c.await(ctx, conn, data)
		c.use(nil, ErrNotRunning)
		conn.Close()
	}
}

// await returns when ctx ends, or the connection is away and the Secret has another credential.
func (c *Connection) await(ctx context.Context, conn *nats.Conn, used map[string][]byte) {
	for pause(ctx, maxWait) {
		if c.options.Secret == "" || conn.IsConnected() {
			continue
		}
		if _, now, err := c.credential(ctx); err == nil && !maps.EqualFunc(now, used, bytes.Equal) {
			return
		}
	}
}

// tidyEvery applies while nothing is lost.
const tidyEvery = 10 * time.Minute

// tidy removes the parts of Clusters that no longer exist when a status has become complete, and from time to time.
func (c *Connection) tidy(ctx context.Context) {
	done := map[*bucket.Bucket]time.Time{}
	for pause(ctx, observeEvery) && c.environment.Clusters != nil {
		c.mu.Lock()
		all := maps.Clone(c.reports)
		c.mu.Unlock()
		for b, s := range all {
			h, last := b.Health(), done[b]
			if !h.Complete || h.Since.Before(last) && time.Since(last) < tidyEvery {
				continue
			}
			if err := s.RemoveGone(ctx, c.environment.HubID, c.environment.Clusters); err != nil {
				c.environment.Logger.V(1).Info("Failed to remove parts of the status", "bucket", b.Name(), "reason", err.Error())
				continue
			}
			done[b] = time.Now()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (c *Connection) use(js jetstream.JetStream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.js, c.err = js, err
}
