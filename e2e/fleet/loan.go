// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
)

// A Loan is what another process needs to use a cluster. The keys are in the folder.
type Loan struct {
	Dir  string `json:"dir"`
	Name string `json:"name"`
	Port int    `json:"port"`
}

// Loan describes the cluster to a process that borrows it.
func (c *Cluster) Loan() Loan { return c.loan }

// Borrow returns another process's cluster. Its methods that change state call do with an action, for which the owner
// must call Do. It keeps the values of ctx, not its end. The caller must call end, which ends what the cluster does
// here.
func Borrow(ctx context.Context, l Loan, do func(ctx context.Context, action string) error) (c *Cluster, end func(), err error) {
	keys, err := loadAuthority(l.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read the keys of cluster %s: %w", l.Name, err)
	}
	c, err = newCluster(l, keys)
	if err != nil {
		return nil, nil, err
	}
	c.machine = borrowed{do: do, soon: func(action string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), obeyTimeout)
		defer cancel()
		return do(ctx, action)
	}}
	return c, c.chores.stop, nil
}

const (
	actionStart  = "start"
	actionStop   = "stop"
	actionKill   = "kill"
	actionPause  = "pause"
	actionResume = "resume"
)

// Do carries out an action that a borrower has sent.
func (c *Cluster) Do(ctx context.Context, action string) error {
	switch action {
	case actionStart:
		return c.Restart(ctx)
	case actionStop:
		return c.Stop(ctx)
	case actionKill:
		return c.Kill()
	case actionPause:
		return c.Pause()
	case actionResume:
		return c.Resume()
	}
	return fmt.Errorf("cluster %s cannot %q", c.Name(), action)
}

type borrowed struct {
	do func(ctx context.Context, action string) error
	// soon is do with a bound.
	soon func(action string) error
}

var _ machine = borrowed{}

func (b borrowed) start(ctx context.Context) error { return b.do(ctx, actionStart) }
func (b borrowed) stop(ctx context.Context) error  { return b.do(ctx, actionStop) }
func (b borrowed) kill() error                     { return b.soon(actionKill) }

func (b borrowed) freeze(frozen bool) error {
	if frozen {
		return b.soon(actionPause)
	}
	return b.soon(actionResume)
}

// The owner ends the cluster.
func (b borrowed) destroy(context.Context) error { return nil }
