// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxBackoff is the longest pause between attempts; the pauses are random from zero on, so that agents do not return all at once.
	minBackoff, maxBackoff = time.Second, 20 * time.Second
	keyEvery               = 10 * time.Second
)

// agentPatience is how long an agent tries before it ends itself: a new process has read its proxies, names and files again.
const agentPatience = 5 * time.Minute

// ErrNotConnected is of an agent that has been without a connection for five minutes.
var ErrNotConnected = errors.New("there was no connection to the hub for too long")

// Run keeps a connection with each replica of the hub until ctx ends. It returns ErrNotConnected if there was none for five minutes.
func (a *Agent) Run(ctx context.Context) error { return a.run(ctx, agentPatience) }

func (a *Agent) run(ctx context.Context, patience time.Duration) error {
	for {
		err := a.connections(ctx, patience)
		if !errors.Is(err, errNewKey) {
			return err
		}
	}
}

var errNewKey = errors.New("the agent has a new key")

// anyReplica is of a connection to whichever replica a balancer chooses.
const anyReplica = ""

// connections are those of an agent with one key.
type connections struct {
	agent   *Agent
	work    sync.WaitGroup
	changed chan struct{} // has room for one

	mu       sync.Mutex     // for operations on the fields below
	replicas []string       // as one of them has said at last
	kept     map[string]int // by the name of a replica: how many goroutines connect with it, or pause after that
	tries    map[string]int // since the last connection
	live     int            // how many of the goroutines have or had a connection
	last     time.Time      // when a connection was seen
	lastErr  error
}

// connections returns errNewKey when the agent has another key.
func (a *Agent) connections(ctx context.Context, patience time.Duration) error {
	c := &connections{agent: a, changed: make(chan struct{}, 1), kept: map[string]int{}, tries: map[string]int{}, last: time.Now()}
	first, _ := a.Key()
	ctx, cancel := context.WithCancel(ctx)
	defer c.work.Wait()
	defer cancel()
	tick := time.NewTicker(keyEvery)
	defer tick.Stop()
	for {
		for _, replica := range c.missing() {
			c.work.Go(func() { c.keep(ctx, replica) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-tick.C:
			if key, err := a.Key(); err == nil && key.Fingerprint() != first.Fingerprint() {
				a.Log.Info("The agent has a new key", "key", key.Fingerprint())
				return errNewKey
			}
		}
		if err := c.expired(patience); err != nil {
			return err
		}
	}
}

// missing returns the replicas to connect with now: any one if there is no connection.
func (c *connections) missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == 0 {
		c.replicas = []string{anyReplica}
	}
	var all []string
	for _, replica := range c.replicas {
		if c.kept[replica] == 0 {
			c.kept[replica]++
			all = append(all, replica)
		}
	}
	return all
}

// keep connects with a replica once, and pauses when the connection has ended.
func (c *connections) keep(ctx context.Context, replica string) {
	isLive := false
	err := c.agent.session(ctx, replica, func(replicas []string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.replicas, c.tries[replica] = replicas, 0
		if !isLive {
			isLive = true
			c.live++
			c.kept[replica]--
			replica = replicas[0]
			c.kept[replica]++
			defer c.agent.Log.Info("Connected to the hub", "replica", replica)
		}
		c.change()
	})
	c.mu.Lock()
	if isLive {
		c.last = time.Now()
	}
	pause := backoff(c.tries[replica])
	c.tries[replica]++
	c.lastErr = err
	c.mu.Unlock()
	c.change()
	if ctx.Err() == nil {
		c.agent.Log.Info("Not connected to the hub", "replica", replica, "why", err.Error(), "retryIn", pause.Round(time.Millisecond).String())
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept[replica]--; isLive {
		c.live--
	}
	c.change()
}

func (c *connections) change() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *connections) expired(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live > 0 || c.lastErr == nil || time.Since(c.last) <= patience {
		return nil
	}
	return fmt.Errorf("%w; the last attempt: %w", ErrNotConnected, c.lastErr)
}

func backoff(tries int) time.Duration {
	most := min(minBackoff<<min(tries, 10), maxBackoff)
	return rand.N(most) //nolint:gosec // It spreads agents, and protects nothing.
}
