// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

type apps struct {
	state  appState
	epoch  int64              // in which they were started, or are being started
	busy   bool               // a call is in progress
	cancel context.CancelFunc // while Warm or Start is in progress
}

type appState int

const (
	cold    appState = iota // there are none, and no write is in flight
	partial                 // what Warm has built before it failed or was interrupted
	warm                    // built
	started                 // they write
)

// beginCall follows the stage in the Machine, not single actions, so that no order of events leaves apps behind. It needs l.mu.
func (l *life) beginCall(ctx context.Context, shard int) {
	a, want := &l.apps[shard], l.machine.Stage(shard)
	isHeld := want.Epoch != 0 && !want.Draining
	switch {
	case a.busy:
		isStart := a.epoch != 0
		isWanted := isStart && isHeld && a.epoch == want.Epoch || !isStart && !isHeld && !want.Draining && want.Warm
		if a.cancel != nil && !isWanted {
			a.cancel()
		}
	case isHeld && a.state == started && a.epoch == want.Epoch:
	case isHeld && a.state != started:
		starting, cancel := context.WithCancel(ctx)
		a.cancel, a.epoch = cancel, want.Epoch
		l.call(shard, func() { l.start(starting, shard, want) })
	case want.Draining, a.state == started, a.state == partial, a.state == warm && !want.Warm:
		l.call(shard, func() { l.drain(ctx, shard) })
	case want.Warm && a.state == cold:
		warming, cancel := context.WithCancel(ctx)
		a.cancel = cancel
		l.call(shard, func() { l.warm(warming, shard) })
	case want.Warm:
		l.machine.Warmed(shard) // Built for an earlier wish.
	}
}

// call needs l.mu.
func (l *life) call(shard int, f func()) {
	l.apps[shard].busy = true
	l.running.Go(func() {
		defer signal(l.kicked)
		f()
	})
}

func (l *life) called(shard int, after apps, note func(*shards.Machine)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.apps[shard]; before.cancel != nil {
		before.cancel()
	}
	l.apps[shard] = after
	note(l.machine)
}

func (l *life) start(ctx context.Context, shard int, as shards.Phase) {
	l.options.Runner.Start(ctx, shard, as.Epoch, as.After)
	l.called(shard, apps{state: started, epoch: as.Epoch}, func(*shards.Machine) {})
}

func (l *life) warm(ctx context.Context, shard int) {
	err := l.options.Runner.Warm(ctx, shard)
	if err == nil {
		l.called(shard, apps{state: warm}, func(m *shards.Machine) { m.Warmed(shard) })
		return
	}
	if ctx.Err() == nil {
		l.log.Error(err, "Failed to build the apps of a shard; the replica tries again", "shard", shard)
		Pause(ctx, l.options.Timing.Retry)
	}
	l.called(shard, apps{state: partial}, func(*shards.Machine) {})
}

func (l *life) drain(ctx context.Context, shard int) {
	for {
		err := l.options.Runner.Drain(ctx, shard)
		if err == nil {
			l.called(shard, apps{}, func(m *shards.Machine) { m.Drained(shard) })
			return
		}
		if ctx.Err() != nil {
			return // The life ends without this drain, and the shard is not released.
		}
		l.log.Error(err, "Failed to drain a shard; the replica tries again", "shard", shard)
		Pause(ctx, l.options.Timing.Retry)
	}
}
