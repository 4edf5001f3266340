// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// open is a gate that lets everything pass, with permissions without a number.
func open() (int64, error) { return 0, nil }

// slow responds after a second.
func slow(code int, err error) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if err != nil {
			return nil, err
		}
		return answer(code, nil, "")(r)
	}
}

// A write is in flight until its outcome is known, and otherwise until it would have timed out.
func TestChain_WritesInFlight(t *testing.T) {
	t.Parallel()
	closed, closeFence := context.WithCancelCause(t.Context())
	closeFence(errFence)
	errDeposed := errors.New("not the leader")
	const second, timeout = time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		chain  Chain
		method string
		ends   time.Duration // when the request ends
		want   time.Duration // for how long it is in flight
	}{
		"success":             {chain: Chain{Base: slow(200, nil)}, ends: second, want: second},
		"conflict":            {chain: Chain{Base: slow(409, nil)}, ends: second, want: second},
		"internal error":      {chain: Chain{Base: slow(500, nil)}, ends: second, want: second},
		"a refused response":  {chain: Chain{Base: slow(307, nil)}, ends: second, want: second},
		"a bad gateway":       {chain: Chain{Base: slow(502, nil)}, ends: second, want: timeout},
		"unavailable":         {chain: Chain{Base: slow(503, nil)}, ends: second, want: timeout},
		"a gateway's timeout": {chain: Chain{Base: slow(504, nil)}, ends: second, want: timeout},
		"no connection":       {chain: Chain{Base: slow(0, &net.OpError{Op: "dial", Err: io.EOF})}, ends: second, want: second},
		"a lost connection":   {chain: Chain{Base: slow(0, &net.OpError{Op: "read", Err: io.EOF})}, ends: second, want: timeout},
		"silence":             {chain: Chain{Base: roundTrip(silent)}, ends: timeout, want: timeout},
		"a closed fence":      {chain: Chain{Base: slow(200, nil), Fence: closed}},
		"a closed gate":       {chain: Chain{Base: slow(200, nil), Gate: func() (int64, error) { return 0, errDeposed }}},
		"a read":              {chain: Chain{Base: slow(200, nil)}, method: http.MethodGet, ends: second},
		"a lost read":         {chain: Chain{Base: slow(0, io.EOF)}, method: http.MethodGet, ends: second},
	} {
		synctest.Test(t, func(t *testing.T) {
			writes := NewWrites()
			chain := c.chain
			chain.Timeout, chain.Writes = timeout, writes.Of("one")
			if chain.Gate == nil {
				chain.Gate = open
			}
			if c.method == "" {
				c.method = http.MethodPost
			}
			began := time.Now()
			ended := make(chan time.Duration, 1)
			go func() {
				_, _ = send(t, &chain, c.method, "/api/v1/namespaces/x/configmaps/y")
				ended <- time.Since(began)
			}()
			synctest.Wait()
			if err := writes.Await(t.Context(), "one"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: in flight for %s, want %s", name, took, c.want)
			}
			if at := <-ended; at != c.ends {
				t.Errorf("%s: ended after %s, want %s", name, at, c.ends)
			}
		})
	}
}

// A write that its sender has given up is in flight until it would have timed out.
func TestChain_CanceledWriteInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		writes := NewWrites()
		fence, cut := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cut(errFence) })
		c := &Chain{Base: roundTrip(silent), Fence: fence, Gate: open, Timeout: 10 * time.Second, Writes: writes.Of("one")}
		began := time.Now()
		if _, err := send(t, c, http.MethodPost, "/api/v1/namespaces"); !errors.Is(err, errFence) || time.Since(began) != 3*time.Second {
			t.Errorf("got error %v after %s, want errFence after 3s", err, time.Since(began))
		}
		if err := writes.Await(t.Context(), "one"); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("Await: got error %v after %s, want nil after 10s", err, time.Since(began))
		}
	})
}

// A write counts before it asks the gate. Otherwise a gate that closes now, and a count that is read after that, overlook it.
func TestChain_CountsBeforeTheGate(t *testing.T) {
	t.Parallel()
	writes := NewWrites()
	ended, end := context.WithCancel(t.Context())
	end()
	calls := 0
	c := &Chain{Base: answer(200, nil, ""), Writes: writes.Of("one"), Gate: func() (int64, error) {
		calls++
		testkit.ErrorIs(t, writes.Await(ended, "one"), context.Canceled, "Await, while the gate decides")
		return 0, nil
	}}
	if _, err := send(t, c, http.MethodPut, "/api/v1/namespaces/x"); err != nil || calls != 1 {
		t.Errorf("got error %v, %d calls of the gate", err, calls)
	}
	if err := writes.Await(ended, "one"); err != nil {
		t.Errorf("Await, after the response: got error %v", err)
	}
}

// A write that panics in a transport below the chain counts until it would have timed out.
func TestChain_PanicInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		writes := NewWrites()
		c := &Chain{Gate: open, Timeout: 5 * time.Second, Writes: writes.Of("one"), Base: roundTrip(func(*http.Request) (*http.Response, error) {
			panic("on purpose")
		})}
		began := time.Now()
		func() {
			defer func() { _ = recover() }()
			_, _ = send(t, c, http.MethodPut, "/api/v1/namespaces/x")
			t.Error("the panic is lost")
		}()
		if err := writes.Await(t.Context(), "one"); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("Await: got error %v after %s, want nil after 5s", err, time.Since(began))
		}
	})
}

// Writes have the term of their permission in the user agent. Reads, and writes whose permission has no term, do not.
func TestChain_Term(t *testing.T) {
	t.Parallel()
	const agent = "clusterfx/hub/one/1"
	for _, c := range []struct {
		method string
		term   int64
		want   string
	}{
		{http.MethodPatch, 7, agent + "/term-7"},
		{http.MethodPatch, 0, agent},
		{http.MethodGet, 7, agent},
	} {
		var sent string
		chain := &Chain{UserAgent: agent, Gate: func() (int64, error) { return c.term, nil }, Base: roundTrip(
			func(r *http.Request) (*http.Response, error) {
				sent = r.Header.Get("User-Agent")
				return answer(200, nil, "")(r)
			})}
		if _, err := send(t, chain, c.method, "/api/v1/namespaces/x"); err != nil || sent != c.want {
			t.Errorf("%s with term %d: got User-Agent %q and error %v, want %q", c.method, c.term, sent, err, c.want)
		}
	}
}
