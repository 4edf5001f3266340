// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Options describe the connection to NATS. The zero Options are those of a hub without NATS.
type Options struct {
	// URL is the address of a server, or several ones with commas, such as tls://nats.example.com:4222.
	URL string
	// CredentialsFile has a JWT and a seed, as nsc writes them; NKeyFile has a seed alone. One of them, or none.
	CredentialsFile, NKeyFile string
	// CAFile has the certificates of authorities. Default: those of the system.
	CAFile string
	// Domain is the domain of JetStream. Default: that of the server.
	Domain string
	// CreateBuckets creates a bucket that does not exist and that the hub has never seen. Default: false, it has to exist.
	CreateBuckets bool
}

// Environment is what a connection gets of its hub.
type Environment struct {
	// HubID identifies the hub.
	HubID string
	// Gate returns an error if the hub must not write. Default: it may.
	Gate func() error
	// AnchorOf returns the memory of the identity of a bucket. Default: none.
	AnchorOf func(bucket string) bucket.Anchor
	// Logger logs losses and returns. Default: none.
	Logger logr.Logger
}

var (
	// ErrNotConfigured is the error of a hub without NATS.
	ErrNotConfigured = errors.New("the hub has no NATS server; set the NATS options of the hub")
	// ErrInvalidOptions is the error of Options that cannot be used.
	ErrInvalidOptions = errors.New("invalid options of the connection to NATS")
	errTwoCredentials = errors.New("a file of credentials and one of an nkey exclude each other")
)

// The intervals of the connection. A server that does not respond is noticed within twenty seconds.
const (
	pingInterval = 10 * time.Second
	pingsMissed  = 2
	minWait      = 500 * time.Millisecond
	maxWait      = 10 * time.Second
	dialTimeout  = 5 * time.Second
)

// Connection is the connection of a hub. Make one with New; Run keeps it.
type Connection struct {
	options     Options
	environment Environment
	conn        *nats.Conn          // nil if NATS is not configured
	js          jetstream.JetStream // of conn

	mu      sync.Mutex // protects what follows
	buckets map[string]*bucket.Bucket
	start   func(*bucket.Bucket) // nil before Run
}

// New returns a connection. It waits for no server: it tries again without end if none responds. The error wraps
// ErrInvalidOptions, and is about the options or the files that they name.
func New(o Options, e Environment) (*Connection, error) {
	c := &Connection{options: o, environment: e, buckets: map[string]*bucket.Bucket{}}
	if c.environment.Logger.GetSink() == nil {
		c.environment.Logger = logr.Discard()
	}
	if c.environment.Gate == nil {
		c.environment.Gate = func() error { return nil }
	}
	if o.URL == "" {
		return c, nil
	}
	options, err := c.natsOptions()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	if c.conn, err = nats.Connect(o.URL, options...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	if o.Domain != "" {
		c.js, err = jetstream.NewWithDomain(c.conn, o.Domain)
	} else {
		c.js, err = jetstream.New(c.conn)
	}
	if err != nil {
		c.conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	return c, nil
}

// natsOptions returns the options of the client. The address is never logged: it may have a password.
func (c *Connection) natsOptions() ([]nats.Option, error) {
	log := c.environment.Logger
	all := []nats.Option{
		nats.Name("clusterfx-" + c.environment.HubID), nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsMissed),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			wait := min(minWait<<min(tries, 6), maxWait)
			return wait + rand.N(wait/4) //nolint:gosec // It spreads the load, and is no secret.
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Info("Lost the connection to NATS", "reason", reasonOf(err)) }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("Connected to NATS") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.V(1).Info("NATS reported an error", "reason", reasonOf(err))
		}),
	}
	o := c.options
	if o.CAFile != "" {
		all = append(all, nats.RootCAs(o.CAFile))
	}
	switch {
	case o.CredentialsFile != "" && o.NKeyFile != "":
		return nil, errTwoCredentials
	case o.CredentialsFile != "":
		all = append(all, nats.UserCredentials(o.CredentialsFile))
	case o.NKeyFile != "":
		key, err := nats.NkeyOptionFromSeed(o.NKeyFile)
		if err != nil {
			return nil, err
		}
		all = append(all, key)
	}
	return all, nil
}

func reasonOf(err error) string {
	if err == nil {
		return "closed"
	}
	return err.Error()
}

// Follow returns the copy of a bucket, which all callers share. It does not wait: see bucket.Bucket.Health.
func (c *Connection) Follow(name string) (*bucket.Bucket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.buckets[name]; ok {
		return b, nil
	}
	o := bucket.Options{
		Name: name, JetStream: c.js, Writer: c.environment.HubID, Gate: c.environment.Gate, Create: c.options.CreateBuckets,
		Logger: c.environment.Logger,
	}
	if c.conn == nil {
		o.JetStream, o.Unavailable = nil, ErrNotConfigured
	}
	if c.environment.AnchorOf != nil {
		o.Anchor = c.environment.AnchorOf(name)
	}
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

// Connected reports whether the connection is up. A hub without NATS is not connected; the error says so.
func (c *Connection) Connected() error {
	switch {
	case c.conn == nil:
		return ErrNotConfigured
	case !c.conn.IsConnected():
		return fmt.Errorf("NATS is not connected: %s", c.conn.Status())
	}
	return nil
}

// Run keeps the copies of all buckets up to date until ctx ends. It returns when no goroutine runs any longer.
func (c *Connection) Run(ctx context.Context) error {
	var running sync.WaitGroup
	start := func(b *bucket.Bucket) {
		running.Go(func() { b.Run(ctx) })
	}
	c.mu.Lock()
	c.start = start
	for _, b := range c.buckets {
		start(b)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.start = nil
	c.mu.Unlock()
	running.Wait()
	if c.conn != nil {
		c.conn.Close()
	}
	return nil
}
