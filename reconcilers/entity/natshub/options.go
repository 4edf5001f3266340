// SPDX-License-Identifier: Apache-2.0

package natshub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// Options describe the connection to NATS. The zero Options are those of a hub without NATS.
type Options struct {
	// URL is one or several servers with commas, such as tls://nats.example.com:4222. tls:// needs a valid
	// certificate.
	URL string
	// CredentialsFile has a JWT and a seed, as nsc writes them; NKeyFile a seed alone. At most one of them.
	CredentialsFile, NKeyFile string
	// CAFile has certificates of authorities. Default: the system's.
	CAFile string
	// Secret names a Secret in the credentials namespace, in place of files: nats.creds has a JWT and a seed, or
	// nats.nk a seed; ca.crt has authorities. It is read for each connection. Default: none.
	Secret string
	// Domain of JetStream. Default: the server's.
	Domain string
	// CreateBuckets creates a missing bucket that the hub has never seen. Default: false.
	CreateBuckets bool
}

// Keys of Options.Secret.
const (
	secretCredentials = "nats.creds" //nolint:gosec // It is the name of a key.
	secretSeed        = "nats.nk"
	secretAuthorities = "ca.crt"
)

// Environment is what a connection gets of its hub. Only HubID is required.
type Environment struct {
	// HubID identifies the hub.
	HubID string
	// Gate returns an error if the hub must not write. Default: it may.
	Gate func() error
	// AnchorOf returns a bucket's Anchor. Default: none.
	AnchorOf func(bucket string) bucket.Anchor
	// Secret reads a Secret in the credentials namespace. Default: none.
	Secret func(ctx context.Context, name string) (map[string][]byte, error)
	// Clusters reads the names of all Clusters live. Default: none, parts of the status stay.
	Clusters func(ctx context.Context) (map[string]bool, error)
	// Degraded is registry.SetDegraded. Default: no report.
	Degraded func(reason, message string)
	// Event records on the ConfigMap of identities. Default: none.
	Event func(kind, reason, action, note string)
	// Logger logs losses and returns. Default: none.
	Logger logr.Logger
}

var (
	errNoAuthority    = errors.New("it has no certificate in PEM")
	errTwoCredentials = errors.New("use one of a file of credentials, the file of an nkey and a Secret")
	errNoSecrets      = errors.New("a Secret can be used by a hub only")
	errEmptySecret    = errors.New("it has neither " + secretCredentials + " nor " + secretSeed)
	errNoURL          = errors.New("the address of the server is missing")
	errURL            = errors.New("an address of a server is a URL such as tls://nats.example.com:4222, or nats://, ws:// or wss://")
	errSeed           = errors.New("it has no seed of a user")
)

// A server that does not respond is noticed within thirty seconds, by the third ping.
const (
	pingInterval = 10 * time.Second
	pingsMissed  = 2
	minWait      = 500 * time.Millisecond
	maxWait      = 2 * time.Second // few hubs use a server: it need not be spared, and modules wait
	dialTimeout  = 5 * time.Second
)

// Validate checks options and the files that they name. It connects to nothing.
func (o Options) Validate() error {
	none := func(context.Context, string) (map[string][]byte, error) { return nil, errNoSecrets }
	_, err := New(o, Environment{Secret: none})
	return err
}

// checkURL does not repeat the address: it may have a password.
func (o Options) checkURL() error {
	if o.URL == "" && o != (Options{}) {
		return errNoURL
	}
	for one := range strings.SplitSeq(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if o.URL != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)) {
			return errURL
		}
	}
	return nil
}

// client returns options whose errors and logs have neither the address, which may have a password, nor a credential.
func (o Options) client(e Environment) ([]nats.Option, error) {
	log := e.Logger
	all := []nats.Option{
		nats.Name("clusterfx-" + e.HubID), nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // A credential that is refused may be replaced.
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsMissed),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			wait := min(minWait<<min(tries, 4), maxWait)
			return wait + rand.N(wait/4) //nolint:gosec // It spreads the load, and is no secret.
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Info("Lost the connection to NATS", "reason", reasonOf(err)) }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("Connected to NATS") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.V(1).Info("NATS reported an error", "reason", reasonOf(err))
		}),
	}
	if o.CAFile != "" {
		authorities := nats.RootCAs(o.CAFile)
		if err := authorities(&nats.Options{}); err != nil {
			return nil, err // It names the file.
		}
		all = append(all, authorities)
	}
	credential, err := o.ofFiles(e)
	return append(all, credential...), err
}

func (o Options) ofFiles(e Environment) ([]nats.Option, error) {
	given := slices.DeleteFunc([]string{o.CredentialsFile, o.NKeyFile, o.Secret}, func(one string) bool { return one == "" })
	switch {
	case len(given) > 1:
		return nil, errTwoCredentials
	case o.CredentialsFile != "":
		return []nats.Option{nats.UserCredentials(o.CredentialsFile)}, nil
	case o.NKeyFile != "":
		key, err := nats.NkeyOptionFromSeed(o.NKeyFile)
		return []nats.Option{key}, err
	case o.Secret != "" && e.Secret == nil:
		return nil, errNoSecrets
	}
	return nil, nil
}

// credential returns the options for the Secret, and its data; both are empty without one.
func (c *Connection) credential(ctx context.Context) ([]nats.Option, map[string][]byte, error) {
	name := c.options.Secret
	if name == "" {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	data, err := c.environment.Secret(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	all, err := optionsOf(data)
	if err != nil {
		return nil, nil, fmt.Errorf("use the Secret %s: %w", name, err)
	}
	return all, data, nil
}

func optionsOf(data map[string][]byte) ([]nats.Option, error) {
	var all []nats.Option
	if text, ok := data[secretAuthorities]; ok {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %w", secretAuthorities, errNoAuthority)
		}
		all = append(all, nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	}
	if text, ok := data[secretCredentials]; ok {
		return append(all, nats.UserCredentialBytes(text)), nil
	}
	seed, ok := data[secretSeed]
	if !ok {
		return nil, errEmptySecret
	}
	pair, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", secretSeed, errSeed)
	}
	user, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", secretSeed, errSeed)
	}
	return append(all, nats.Nkey(user, pair.Sign)), nil
}

func reasonOf(err error) string {
	if err == nil {
		return "closed"
	}
	return err.Error()
}
