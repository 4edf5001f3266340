// SPDX-License-Identifier: Apache-2.0

/*
Package collector decides how often Go's garbage collector runs in the process of a hub.

While many remotes start, a hub allocates the objects that its caches keep, and most collections find little to free. With
GOGC=400 they take a fifth to a quarter of the time less, for a peak of the heap that is about 15 % higher (500 remotes with 100
ConfigMaps of 2 KB each). That is only safe below a memory limit, near which Go collects more often whatever GOGC is.

The limit is GOMEMLIMIT, or nine tenths of that of the cgroup. What the environment says is never changed: with GOGC the collector
stays as it is, and with GOMEMLIMIT the limit does.
*/
package collector

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// many is the number of remotes from which on the collector runs less often.
	many          = 10
	whileStarting = 400
	// share of the cgroup's limit is for heap and stacks, the rest for what Go does not count.
	share = 0.9
)

type Pace struct {
	mayChange bool

	mu      sync.Mutex // protects the fields
	relaxed bool
	usual   int // GOGC before
}

// New sets the memory limit of the process unless it has one, and returns the Pace of its collector. A process has one.
func New() *Pace {
	if os.Getenv("GOMEMLIMIT") == "" {
		// An error means that there is no cgroup with a limit.
		_, _ = memlimit.SetGoMemLimitWithOpts(
			memlimit.WithRatio(share), memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithLogger(slog.New(slog.DiscardHandler)),
		)
	}
	return &Pace{mayChange: os.Getenv("GOGC") == "" && Limit() > 0}
}

// Limit returns the memory limit of the process in bytes, or 0 if it has none.
func Limit() int64 {
	const read = -1
	if limit := debug.SetMemoryLimit(read); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

// Starting sets the pace for a number of remotes that are being started. It does not block.
func (p *Pace) Starting(remotes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	relax := p.mayChange && remotes >= many
	if relax == p.relaxed {
		return
	}
	p.relaxed = relax
	if relax {
		p.usual = debug.SetGCPercent(whileStarting)
	} else {
		debug.SetGCPercent(p.usual)
	}
}
