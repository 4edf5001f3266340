// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

type recorder struct{ ran []string }

func (r *recorder) hook(name string, startErr error) fx.Hook {
	return fx.Hook{
		OnStart: func(context.Context) error { r.ran = append(r.ran, "start "+name); return startErr },
		OnStop:  func(context.Context) error { r.ran = append(r.ran, "stop "+name); return nil },
	}
}

func TestHooks_StopWhatHasStarted(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var r recorder
	h := &hooks{log: logr.Discard(), timeout: time.Second}
	one := lifecycle{module: "one", hooks: h}
	one.Append(r.hook("a", nil))
	one.Append(r.hook("b", nil))
	lifecycle{module: "two", hooks: h}.Append(r.hook("c", boom))
	one.Append(r.hook("never", nil))

	err := h.start(t.Context())
	var failed *ModuleError
	if !errors.Is(err, boom) || !errors.As(err, &failed) || failed.Module != "two" || failed.Reason != state.ReasonStartFailed {
		t.Errorf("start: got %v, want boom of module two", err)
	}
	if err := h.stop(t.Context()); err != nil {
		t.Errorf("stop: got %v", err)
	}
	if err := h.stop(t.Context()); err != nil {
		t.Errorf("second stop: got %v", err)
	}
	testkit.Equal(t, r.ran, []string{"start a", "start b", "start c", "stop b", "stop a"}, "hooks")
}

// If a stop hook hangs or panics, the other stop hooks still run, and the process continues.
func TestHooks_StopRunsAllOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		release := make(chan struct{})
		h := &hooks{log: logr.Discard(), timeout: time.Second}
		l := lifecycle{module: "one", hooks: h}
		l.Append(r.hook("a", nil))
		l.Append(fx.Hook{OnStop: func(context.Context) error { <-release; return nil }})
		l.Append(fx.Hook{OnStop: func(context.Context) error { panic("oops") }})
		if err := h.start(t.Context()); err != nil {
			t.Fatalf("start: got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		err := h.stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "oops") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: got %v, want the panic and the deadline", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("stop took %s, want at most 10s", took)
		}
		testkit.Equal(t, r.ran, []string{"start a", "stop a"}, "hooks")
		close(release)
		synctest.Wait()
	})
}

// end waits until the hooks are no longer held; afterwards they cannot be held.
func TestHooks_EndWaitsForWhoHoldsThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hooks{log: logr.Discard(), timeout: time.Second}
		if !h.hold() {
			t.Fatal("hooks cannot be held before their end")
		}
		time.AfterFunc(time.Minute, h.running.Done)
		began := time.Now()
		h.end()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("end took %s, want a minute", took)
		}
		if h.hold() {
			t.Error("hooks can be held after their end")
		}
	})
}
