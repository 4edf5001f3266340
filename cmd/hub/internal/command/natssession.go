// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/entities"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// natsURL is the environment variable of the nats command with the address of the server.
const natsURL = "NATS_URL"

// natsHelp is the part of help texts about the connection.
const natsHelp = "The NATS server is that of --nats-url, of $NATS_URL, of a dev that runs here, or of the configuration of the installed hub,\n" +
	"in this order. The command uses the network of this machine."

// natsTimeout bounds the requests of one command to NATS.
const natsTimeout = 30 * time.Second

// natsSession is a session of a command that works on the buckets of a hub.
type natsSession struct {
	*session
	nats natshub.Options
	conn interface{ Close() }
}

// newNATSSession adds the flags for NATS and for the hub's cluster to a command.
func (p Program) newNATSSession(cmd *cobra.Command) *natsSession {
	s := &natsSession{session: p.newSession(cmd)}
	hubconfig.BindNATS(cmd.Flags(), &s.nats)
	s.hub.BindNamespace(cmd.Flags())
	s.bind(cmd.Flags())
	return s
}

// errNoNATS is the error of a command that finds no server.
var errNoNATS = errors.New("no NATS server is known: name it with --nats-url")

// connect connects to NATS. The caller calls close.
func (s *natsSession) connect(ctx context.Context) (jetstream.JetStream, error) {
	o := s.nats
	if o.URL == "" {
		o.URL = os.Getenv(natsURL)
	}
	if o.URL == "" {
		o.URL = s.hub.NATS()
	}
	if o.URL == "" {
		found, err := s.installedNATS(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w, or: %w", errNoNATS, err)
		}
		o.URL = found.URL
		if o.Domain == "" {
			o.Domain = found.Domain
		}
	}
	if o.URL == "" {
		return nil, errNoNATS
	}
	conn, js, err := natshub.Dial(ctx, o, natshub.Environment{HubID: "cli"})
	if err != nil {
		return nil, fmt.Errorf("%w; check --nats-url, and the credential of --nats-creds or --nats-nkey", err)
	}
	s.conn = conn
	return js, nil
}

// close closes the connection, if there is one.
func (s *natsSession) close() {
	if s.conn != nil {
		s.conn.Close()
	}
}

// installedNATS returns the options of the installed hub.
func (s *natsSession) installedNATS(ctx context.Context) (natshub.Options, error) {
	installed, err := s.installed(ctx)
	if err != nil || installed.Config == "" {
		return natshub.Options{}, err
	}
	_, file, err := s.program.configured(fmt.Sprintf("ConfigMap %s/%s", s.hub.Namespace, install.ConfigMapName), []byte(installed.Config))
	if err != nil {
		return natshub.Options{}, err
	}
	return file.Options.NATS, nil
}

// run calls f with the connection, and closes it.
func (s *natsSession) run(ctx context.Context, f func(ctx context.Context, js jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	js, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return f(ctx, js)
}

// onStore calls f with a bucket.
func (s *natsSession) onStore(ctx context.Context, name string, f func(ctx context.Context, store *entities.Store) error) error {
	return s.run(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		store, err := entities.Open(ctx, js, name)
		if err != nil {
			return err
		}
		return f(ctx, store)
	})
}

// checkOf returns the check of the values of a bucket by the module that reads it, nil if none of the program does.
func (s *natsSession) checkOf(bucket string) func([]byte) error {
	for _, m := range s.program.Modules {
		for _, input := range m.Inputs() {
			if input.Name == bucket {
				return input.Check
			}
		}
	}
	return nil
}
