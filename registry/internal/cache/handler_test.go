// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// stuckOwner notes the handlers that do not return.
type stuckOwner struct {
	Owner
	stuck int
}

func (o *stuckOwner) Call(_ string, f func()) { f() }

func (*stuckOwner) IsBroken() bool { return false }

func (o *stuckOwner) Stuck(time.Duration, []string) { o.stuck++ }

// A handler is stuck if two checks find the same call, not if it was idle between them.
func TestInformer_StuckHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, by, next := newServer(), &stuckOwner{}, make(chan struct{})
		i := informerOf(t, s.listerWatcher(), 0, toolscache.Indexers{})
		i.budget.options.Goroutines = func() []string { return nil }
		add(t, i, owned{toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-next }}, by})
		run(t, i)
		for n, stuck := range []int{0, 0, 1} {
			s.put("a" + strconv.Itoa(n))
			for _, after := range []time.Duration{0, time.Duration(stuck) * time.Hour} {
				<-time.After(after)
				synctest.Wait()
				i.budget.findStuck(time.Now())
			}
			testkit.Equal(t, by.stuck, stuck, "stuck handlers in call", n)
			next <- struct{}{}
			<-time.After(time.Hour)
		}
	})
}
