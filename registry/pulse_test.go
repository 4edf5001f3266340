// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A pulse that beats in time has nothing to say, at whatever time it is asked.
func TestPulse_Beats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := newPulse(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go p.beat(ctx)
		<-time.After(time.Minute)
		if p.starvedSince(began) {
			t.Error("a hub that had nothing to do was starved")
		}
		cancel()
	})
}

// What starved the hub before a probe began is no excuse for the probe.
func TestPulse_Since(t *testing.T) {
	t.Parallel()
	p := newPulse()
	p.starvedUntil.Store(int64(time.Minute))
	if !p.starvedSince(p.born.Add(59 * time.Second)) {
		t.Error("a beat that was late while the probe ran is no excuse")
	}
	if p.starvedSince(p.born.Add(61 * time.Second)) {
		t.Error("a beat that was late before the probe began is an excuse")
	}
}

func TestPulse_IsOurs(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.EADDRNOTAVAIL: true, syscall.ECONNREFUSED: false,
	} {
		err := fmt.Errorf("probe: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)})
		if got := isOurs(err); got != want {
			t.Errorf("isOurs(%v) = %v, want %v", err, got, want)
		}
	}
}
