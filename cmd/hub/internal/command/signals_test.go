// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
)

// The first signal ends the context. The second signal ends the process, after the functions of BeforeExit have returned.
func TestSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var order []string
		flushed := make(chan struct{})
		s := &Signals{received: make(chan os.Signal, 2), raise: func(s os.Signal) { order = append(order, s.String()) }}
		s.BeforeExit(func() {
			<-flushed
			order = append(order, "last words")
		})
		go s.run(t.Context(), func() { order = append(order, "first") })
		s.received <- syscall.SIGTERM
		synctest.Wait()
		if len(order) != 1 || order[0] != "first" {
			t.Errorf("after the first signal: %v", order)
		}
		s.received <- os.Interrupt
		synctest.Wait()
		if len(order) != 1 {
			t.Errorf("before the function of BeforeExit returns: %v", order)
		}
		close(flushed)
		synctest.Wait()
		if len(order) != 3 || order[1] != "last words" || order[2] != os.Interrupt.String() {
			t.Errorf("after the second signal: %v", order)
		}
	})
}
