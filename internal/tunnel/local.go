// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/go-logr/logr"
)

// Local are agents in the process of their hub, for a test or a demonstration.
type Local struct {
	Address string // Address is for the listener of the hub, also after a restart.

	key     Key
	life    context.Context //nolint:containedctx // of the agents
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // for operations on agents
	agents  map[string]localAgent
}

type localAgent struct {
	fingerprint string
	end         context.CancelFunc
}

// NewLocal chooses an address and a key for the hub, which it returns in PEM. The caller must call Close.
func NewLocal(ctx context.Context) (l *Local, hubKey []byte, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("find an address for agents: %w", err)
	}
	defer func() { _ = listener.Close() }()
	l = &Local{Address: listener.Addr().String(), agents: map[string]localAgent{}}
	if l.key, err = NewKey(); err != nil {
		return nil, nil, err
	}
	l.life, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l, l.key.PEM(), nil
}

// Run runs the agent of a remote until End or Close, unless it runs already, and returns the fingerprint of its key. The agent connects to an
// API server, as host:port.
func (l *Local) Run(remote, to string) (fingerprint string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, runs := l.agents[remote]; runs {
		return a.fingerprint, nil
	}
	key, err := NewKey()
	if err != nil {
		return "", err
	}
	life, end := context.WithCancel(l.life)
	l.agents[remote] = localAgent{fingerprint: key.Fingerprint(), end: end}
	agent := &Agent{
		Hub: "ws://" + l.Address, HubKeys: []string{l.key.Fingerprint()}, Key: func() (Key, error) { return key, nil },
		To: to, Version: "local", Log: logr.Discard(),
	}
	l.running.Go(func() {
		for life.Err() == nil {
			_ = agent.Run(life) // It ends itself after five minutes without a hub.
		}
	})
	return key.Fingerprint(), nil
}

// End ends the agent of a remote, if one runs. Another that runs later has another key.
func (l *Local) End(remote string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, runs := l.agents[remote]; runs {
		a.end()
		delete(l.agents, remote)
	}
}

// Close ends the agents.
func (l *Local) Close() {
	if l != nil {
		l.cancel()
		l.running.Wait()
	}
}
