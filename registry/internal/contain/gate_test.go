// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewGate(t.Context())
		began, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- p.run(t.Context(), func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				<-time.After(time.Second) // like a reconcile that finishes
				return errors.New("was interrupted")
			})
		}()
		synctest.Wait()
		select {
		case <-began:
			t.Fatal("work starts before the gate opens")
		default:
		}
		p.Open()
		<-began
		since := time.Now()
		p.Close(time.Minute)
		if took := time.Since(since); took != time.Second {
			t.Errorf("Close took %s, want 1s: the time until the work ended", took)
		}
		if err := <-ended; err != nil {
			t.Errorf("interrupted work fails: %v", err)
		}
		for range 50 { // The gate was opened and closed, and the order in which both are seen is random.
			ran := false
			err := p.run(t.Context(), func(context.Context) error {
				ran = true
				return errors.New("ran")
			})
			if err != nil || ran {
				t.Fatalf("after Close: got error %v, ran: %t", err, ran)
			}
		}
	})
}

// Close waits no longer than its limit for work that does not end.
func TestGate_Impatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, hang := NewGate(t.Context()), make(chan struct{})
		p.Open()
		go func() { _ = p.run(t.Context(), func(context.Context) error { <-hang; return nil }) }()
		synctest.Wait()
		since := time.Now()
		p.Close(3 * time.Second)
		if took := time.Since(since); took != 3*time.Second {
			t.Errorf("Close took %s, want 3s", took)
		}
		close(hang)
	})
}

// ending is a context that has ended before the contexts derived from it.
type ending struct{ context.Context } //nolint:containedctx // It is a context itself.

func (ending) Err() error { return context.Canceled }

// A request that the end of an epoch cuts off can fail before the context of the gate ends. The gate has ended then.
func TestGate_EndedWithTheEpoch(t *testing.T) {
	t.Parallel()
	epoch, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := NewGate(epoch)
	if g.Ended() {
		t.Error("gate has ended before its epoch")
	}
	g.epoch = ending{epoch}
	if !g.Ended() || g.Context.Err() != nil {
		t.Errorf("got Ended %t and context error %v, want true and nil", g.Ended(), g.Context.Err())
	}
	g = NewGate(epoch)
	g.Close(0)
	if !g.Ended() {
		t.Error("closed gate has not ended")
	}
}
