// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The reason of a canceled lease is Canceled, even if its callback waited for a remote that was not ready.
func TestReasonOfLease(t *testing.T) {
	t.Parallel()
	notReady := notReady(Status{Name: "edge", State: state.StateUnreachable})
	for _, c := range []struct {
		err  error
		want string
	}{
		{notReady, "NotReady"},
		{ErrNotFound, "NotFound"},
		{errors.New("sesame"), "Error"},
		{fmt.Errorf("wait for edge: %w: %w", context.Canceled, notReady), telemetry.ReasonCanceled},
		{fmt.Errorf("%w: %w", ErrReplaced, ErrNotFound), telemetry.ReasonCanceled},
		{errors.Join(&app.ModuleError{Reason: state.ReasonStartFailed, Err: notReady}), state.ReasonStartFailed},
	} {
		if got := reasonOfLease(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}
