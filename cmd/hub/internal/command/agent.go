// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/enroll"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/internal/tunnel"
)

const agentExample = `  # In a Pod of the remote, as hub register --tunnel installs it
  %s agent --hub wss://hub.example.com --hub-key sha256:4f1e... --key-file /etc/clusterfx/key.pem

  # Say why it cannot connect
  %s agent --hub wss://hub.example.com --hub-key sha256:4f1e... --key-file /etc/clusterfx/key.pem --check

  # Make a key for an agent or for the hub
  %s agent --new-key > key.pem`

type agentFlags struct {
	agent           tunnel.Agent
	keyFile, caFile string
	log             logging.Options
	check, newKey   bool
	newSecret       string
}

const checkTimeout = 30 * time.Second

func newAgent(p Program) *cobra.Command {
	f := &agentFlags{}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Connect a remote to a hub that cannot reach it",
		Long: "Connect a remote to a hub that cannot reach it. The agent runs in the remote, connects to the hub, and connects what\n" +
			"comes from there with one address, the remote's API server. It needs no permission in the remote, and sees no\n" +
			"plaintext. It uses the HTTP proxy of its environment: HTTPS_PROXY, also with a password, and NO_PROXY.\n\n" +
			"It ends itself when it has had no connection for five minutes, so that a new process reads its files and names again.\n\n" + exitCodes,
		Example: p.example(agentExample),
		Args:    output.None,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), p) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.agent.Hub, "hub", "", "Address of the hub's --tunnel-bind-address from here, as wss://hub.example.com, or ws:// without TLS around the tunnel's own")
	set.StringSliceVar(&f.agent.HubKeys, "hub-key", nil, "Fingerprint of the hub's key, as hub register --tunnel prints it. Repeatable, for a hub that gets a new one")
	set.StringVar(&f.agent.To, "to", enroll.DefaultTo, "Host and port of the remote's API server. The hub reaches nothing else, and the Cluster's server must be the same")
	set.StringVar(&f.keyFile, "key-file", "", "File with the key of this agent. A new one is used within seconds")
	set.StringVar(&f.caFile, "ca-file", "", "File with the certificate authorities of wss. Default: those of the system")
	set.BoolVar(&f.check, "check", false, "Connect once, and say why that fails (default false)")
	set.BoolVar(&f.newKey, "new-key", false, "Print a new key, and its fingerprint to stderr (default false)")
	set.StringVar(&f.newSecret, "new-key-secret", "", "Put a new key into the Secret of this name, unless there is one, in the namespace of this Pod")
	hubconfig.BindLogLevel(set, &f.log)
	return cmd
}

func (f *agentFlags) run(ctx context.Context, p Program) error {
	switch {
	case f.newKey:
		return printKey(p)
	case f.newSecret != "":
		made, err := enroll.MakeAgentKey(ctx, f.newSecret)
		if err == nil {
			_, err = fmt.Fprintln(p.Stdout, made)
		}
		return err
	}
	if err := f.complete(); err != nil {
		return err
	}
	f.agent.Log = logging.New(p.Stderr, f.log)
	if f.check {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		if err := f.agent.Check(ctx); err != nil {
			return err
		}
		_, err := fmt.Fprintln(p.Stdout, "the hub accepts this agent, and the agent reaches", f.agent.To)
		return err
	}
	f.agent.Log.Info("Starting the agent", "version", project.Version(), "hub", f.agent.Hub, "to", f.agent.To)
	return f.agent.Run(ctx)
}

func printKey(p Program) error {
	key, err := tunnel.NewKey()
	if err != nil {
		return err
	}
	if _, err := p.Stdout.Write(key.PEM()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stderr, key.Fingerprint())
	return err
}

func (f *agentFlags) complete() error {
	if f.agent.Hub == "" || len(f.agent.HubKeys) == 0 || f.keyFile == "" {
		return errors.New("an agent needs --hub, --hub-key and --key-file: hub register NAME --tunnel makes them")
	}
	for _, key := range f.agent.HubKeys {
		if !tunnel.IsFingerprint(key) {
			return fmt.Errorf("--hub-key=%q: use sha256: and 64 hexadecimal digits", key)
		}
	}
	if _, _, err := net.SplitHostPort(f.agent.To); err != nil {
		return fmt.Errorf("--to=%q: use host:port", f.agent.To)
	}
	f.agent.Version = project.Version()
	f.agent.Key = func() (tunnel.Key, error) {
		text, err := hubconfig.ReadText(f.keyFile)
		if err != nil {
			return tunnel.Key{}, fmt.Errorf("--key-file: %w", err)
		}
		key, err := tunnel.ParseKey(text)
		if err != nil {
			err = fmt.Errorf("--key-file=%s: %w", f.keyFile, err)
		}
		return key, err
	}
	if f.caFile == "" {
		return nil
	}
	text, err := os.ReadFile(f.caFile)
	if err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	f.agent.Roots = x509.NewCertPool()
	if !f.agent.Roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("--ca-file=%s: there is no certificate in PEM", f.caFile)
	}
	return nil
}
