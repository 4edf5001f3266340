// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/state"
)

// An app that was being started when the hub crashed starts last, and alone after a second crash only: a hub that is killed while it
// starts many apps must not start them one after the other.
func TestActor_Rank(t *testing.T) {
	t.Parallel()
	for crashes, want := range []startqueue.Rank{startqueue.RankNew, startqueue.RankFailed, startqueue.RankSuspect, startqueue.RankSuspect} {
		a := &Actor{applied: state.Desired{CrashRecord: state.CrashRecord{Crashes: crashes}}}
		if got := a.rank(); got != want {
			t.Errorf("after %d crashes got the rank %d, want %d", crashes, got, want)
		}
	}
}
