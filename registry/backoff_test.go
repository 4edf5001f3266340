// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A remote that stops answering while its app is being built has done nothing that deserves a
// growing backoff.
func TestMachine_AnUnreachableRemoteIsNoFailure(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	for range 5 {
		m.applyEnded(m.app.epoch, failure{reason: ReasonStartFailed, remote: true}, now)
		m.decide(now)
		m.applyGone(m.app.epoch)
		m.decide(now)
		if wait := m.wakeAt(now).Sub(now); wait != retryBase || m.failures != 0 {
			t.Fatalf("waits %s after %d failures, want %s and 0", wait, m.failures, retryBase)
		}
		m.applyProbe(bad("E1"), now) // and so does the probe
		m.applyProbe(good("E1"), now)
		now = m.wakeAt(now)
		m.decide(now)
	}
}

func TestMachine_Backoff(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	fail := func() time.Duration {
		m.applyEnded(m.app.epoch, failure{reason: ReasonModuleFailed}, now)
		m.decide(now)
		m.applyGone(m.app.epoch)
		m.decide(now)
		wait := m.wakeAt(now).Sub(now)
		now = m.wakeAt(now)
		if got := kinds(m.decide(now)); !cmp.Equal(got, []actionKind{actStart}) {
			t.Fatalf("at the retry time: actions = %v, want a start", got)
		}
		return wait
	}
	var waits []time.Duration
	for range 9 {
		waits = append(waits, fail())
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("backoff (-want +got):\n%s", diff)
	}
	m.applyReady(m.app.epoch, now)
	now = now.Add(retryReset)
	if got := fail(); got != time.Second {
		t.Errorf("after ten minutes of health: backoff = %s, want 1s", got)
	}
}
