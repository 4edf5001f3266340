// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

const natsDir = "nats"

const natsTimeout = 30 * time.Second

var errNATSNotReady = errors.New("it does not accept connections")

// startNATS starts a server in this process, if wanted, for this machine, with a token that is in the address.
func (d *demo) startNATS(context.Context) error {
	if !d.nats {
		return nil
	}
	token := rand.Text()
	s, err := server.NewServer(&server.Options{
		ServerName: "clusterfx-dev", Host: "127.0.0.1", Port: server.RANDOM_PORT, Authorization: token,
		JetStream: true, StoreDir: d.folder.path(natsDir), NoSigs: true, NoLog: true,
	})
	if err != nil {
		return fmt.Errorf("start the NATS server: %w", err)
	}
	d.natsServer = s
	go s.Start() // It ends with Shutdown.
	if !s.ReadyForConnections(natsTimeout) {
		return fmt.Errorf("start the NATS server: %w", errNATSNotReady)
	}
	address := url.URL{Scheme: "nats", User: url.User(token), Host: s.Addr().String()}
	d.natsURL = address.String()
	d.terminal.Done("started a NATS server at %s", s.Addr())
	return nil
}

func (d *demo) stopNATS() {
	if d.natsServer == nil {
		return
	}
	d.natsServer.Shutdown()
	d.natsServer.WaitForShutdown()
}

// nextOfNATS returns the command that lists the buckets of entities. The address of the server, with its token, is in the kubeconfig.
func (d *demo) nextOfNATS() []string {
	if !d.nats {
		return nil
	}
	return []string{`NATS_URL=$(kubectl config view --raw -o jsonpath='{..extensions[?(@.name=="` + access.DevExtension + `")].extension.nats}') nats kv ls`}
}
