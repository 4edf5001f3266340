// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The reason of a canceled request is Canceled. Every other error has the reason of a condition.
func TestReasonOfRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("sesame: %w", ErrStopped), telemetry.ReasonCanceled},
		{ErrReplaced, telemetry.ReasonCanceled},
		{context.Canceled, telemetry.ReasonCanceled},
		{fmt.Errorf("sesame: %w", transport.ErrConnections), "NotHealthy"},
		{&kubeconfig.StatusError{Code: 401}, state.ReasonUnauthorized},
	} {
		if got := ReasonOfRequest(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}

// If no traces are collected, the end of a span does not allocate.
func TestEndWith_CostsNothingWhenOff(t *testing.T) {
	failed := errors.New("x")
	if n := testing.AllocsPerRun(100, func() { telemetry.End(noop.Span{}, failed, ReasonOf) }); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
