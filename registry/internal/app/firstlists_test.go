// SPDX-License-Identifier: Apache-2.0

package app

import (
	goruntime "runtime"
	"testing"
	"weak"

	"github.com/clusterfx/clusterfx/registry/internal/prefetch"
)

// The first lists of an app, which are kept for the next one, do not keep the app and its caches in memory.
func TestEpoch_FirstLists(t *testing.T) {
	t.Parallel()
	build := func() (*prefetch.Lists, weak.Pointer[Epoch]) {
		e := &Epoch{lists: prefetch.NewLists("")}
		return e.FirstLists(), weak.Make(e)
	}
	lists, e := build()
	if goruntime.GC(); e.Value() != nil {
		t.Error("the app stays in memory")
	}
	goruntime.KeepAlive(lists)
}
