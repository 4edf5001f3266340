// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/state"
)

// An app that was being started when a process of the hub ended starts after the others, and a suspect alone.
func TestActor_Rank(t *testing.T) {
	t.Parallel()
	for record, want := range map[state.CrashRecord]startqueue.Rank{
		{}: startqueue.RankNew, {Crashes: 1}: startqueue.RankFailed, {Crashes: 3, Alone: true}: startqueue.RankSuspect,
	} {
		a := &Actor{applied: state.Desired{CrashRecord: record}}
		if got := a.rank(); got != want {
			t.Errorf("with %+v: got the rank %d, want %d", record, got, want)
		}
	}
}
