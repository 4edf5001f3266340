// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
	// ErrNotRunning is the error before Run and after it.
	ErrNotRunning = errors.New("the connection to NATS is not made yet, or is closed")
	// ErrInvalidOptions is the error of Options that cannot be used.
	ErrInvalidOptions = errors.New("invalid options of the connection to NATS")
	errNoAuthority    = errors.New("the file has no certificate in PEM")
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
	client      []nats.Option

	mu      sync.Mutex          // protects what follows
	js      jetstream.JetStream // nil unless Run runs
	buckets map[string]*bucket.Bucket
	start   func(*bucket.Bucket) // nil unless Run runs
}

// New returns a connection that Run makes. It opens nothing. The error wraps ErrInvalidOptions, and is about the options or the files
// that they name.
func New(o Options, e Environment) (*Connection, error) {
	c := &Connection{options: o, environment: e, buckets: map[string]*bucket.Bucket{}}
	if o.URL == "" {
		return c, nil
	}
	var err error
	if c.client, err = c.natsOptions(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	return c, nil
}

// connect begins to connect, and does not wait for a server: the client tries again without end.
func (c *Connection) connect() (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(c.options.URL, c.client...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	js, err := jetstream.New(conn)
	if c.options.Domain != "" {
		js, err = jetstream.NewWithDomain(conn, c.options.Domain)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	return conn, js, nil
}

// jetStream returns the connection for buckets.
func (c *Connection) jetStream() (jetstream.JetStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.options.URL == "":
		return nil, ErrNotConfigured
	case c.js == nil:
		return nil, ErrNotRunning
	}
	return c.js, nil
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
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %w", o.CAFile, errNoAuthority)
		}
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
		Name: name, JetStream: c.jetStream, Writer: c.environment.HubID, Gate: c.environment.Gate, Create: c.options.CreateBuckets,
		Logger: c.environment.Logger,
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
	js, err := c.jetStream()
	if err != nil {
		return err
	}
	if conn := js.Conn(); !conn.IsConnected() {
		return fmt.Errorf("NATS is not connected: %s", conn.Status())
	}
	return nil
}

// Run connects, and keeps the copies of all buckets up to date until ctx ends. It returns when no goroutine runs any longer. The error
// is that of options that the client refuses.
func (c *Connection) Run(ctx context.Context) error {
	if c.options.URL != "" {
		conn, js, err := c.connect()
		if err != nil {
			return err
		}
		defer conn.Close()
		c.use(js)
		defer c.use(nil)
	}
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
	return nil
}

func (c *Connection) use(js jetstream.JetStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.js = js
}
