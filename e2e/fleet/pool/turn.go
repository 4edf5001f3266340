// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Turns keep tests from overloading their machine, where even a healthy API server does not respond in time: while more processes
// want each processor than overload, only few hubs are lent at once. A hub is what a test takes first.
type Turns struct {
	one  chan struct{} // holds a value while a test waits: they begin one after the other
	load func() float64
}

// NewTurns returns the turns of a pool. load returns how many processes want each processor.
func NewTurns(load func() float64) *Turns { return &Turns{one: make(chan struct{}, 1), load: load} }

const (
	overload = 8               // At this load, a wait takes nothing from the processors.
	turn     = 5 * time.Second // The load is a mean of a minute, and follows slowly.
	// patience bounds a wait: the others may be waiting, too, for their second hub.
	patience = 2 * time.Minute
)

// Await returns when a further hub may be lent. few says whether few are.
func (t *Turns) Await(ctx context.Context, few func() bool) {
	if few() || t.load() <= overload {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case t.one <- struct{}{}:
		defer func() { <-t.one }()
	case <-ctx.Done():
		return
	}
	_ = wait.PollUntilContextCancel(ctx, turn, false, func(context.Context) (bool, error) { // Its error is the end of ctx.
		return few() || t.load() <= overload, nil
	})
}

// loadOfProcessor is the mean number of processes that want a processor, in the last minute; 0 on a system without /proc.
func loadOfProcessor() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load / float64(runtime.NumCPU())
}
