// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call that ignores its context is abandoned one second after the context ends.
func TestEachResult_LeavesACallBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		release := make(chan struct{})
		defer close(release)
		var one EachResult[int]
		one.call(ctx, func(context.Context) (int, error) {
			<-release
			return 1, nil
		})
		if one.Value != 0 || !errors.Is(one.Err, context.DeadlineExceeded) || one.Duration != time.Minute+time.Second {
			t.Errorf("got %+v, want the call abandoned one second after its timeout of a minute", one)
		}
	})
}
