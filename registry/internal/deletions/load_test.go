// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

// slowStore is a Store whose reads take an hour, unless their context ends first, and then fail or not.
type slowStore struct {
	reads int // one read at a time
	err   error
}

func (s *slowStore) Load(ctx context.Context) (*StoreContent, error) {
	s.reads++
	select {
	case <-time.After(time.Hour):
		return &StoreContent{}, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (*slowStore) Claim(context.Context, types.UID, int, time.Time) (bool, int, error) {
	return true, 0, nil
}

func (*slowStore) Write(context.Context, string, map[string]string) (bool, error) { return true, nil }

// A module that gives up does not make the deletes of others fail, which wait for the same read.
func TestGuard_LoadOfACallThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		g := New(Options{Store: store, Now: time.Now, Changed: func(state.ClusterName) {}})
		ctx, cancel := context.WithCancel(t.Context())
		first, others := make(chan error), make(chan error)
		go func() { first <- g.load(ctx, "", place{key: holds.KeyOf("")}) }()
		synctest.Wait()
		for range 3 {
			go func() { others <- g.load(t.Context(), "", place{key: holds.KeyOf("")}) }()
		}
		synctest.Wait()
		cancel()
		testkit.ErrorIs(t, <-first, context.Canceled, "the first call")
		for range 3 {
			if err := <-others; err != nil {
				t.Errorf("a call that has not ended: %v", err)
			}
		}
		testkit.Equal(t, store.reads, 1, "reads")
	})
}

// Calls that wait for a read which fails fail with it, and not one after the other.
func TestGuard_LoadFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{err: errors.New("the hub is down")}
		g, began := New(Options{Store: store, Now: time.Now, Changed: func(state.ClusterName) {}}), time.Now()
		failed := make(chan error)
		for range 10 {
			go func() { failed <- g.load(t.Context(), "", place{key: holds.KeyOf("")}) }()
		}
		for range 10 {
			testkit.ErrorIs(t, <-failed, store.err)
		}
		if took := time.Since(began); took > time.Hour || store.reads != 1 {
			t.Errorf("%d reads in %s, want one", store.reads, took)
		}
	})
}

// Several errors of the Store that are the same are told once, however often it is tried, and so is that they have ended.
func TestGuard_RunTellsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := &slowStore{err: errors.New("the hub is down")}
		g := New(Options{Store: store, Now: time.Now, Changed: func(state.ClusterName) {}})
		var told []error
		done := make(chan struct{})
		go func() { defer close(done); g.Run(ctx, time.Minute, func(err error) { told = append(told, err) }) }()
		<-time.After(4*time.Hour + 30*time.Minute) // in the bubble: the Store has failed four times
		synctest.Wait()
		if len(told) != 1 || !errors.Is(told[0], store.err) || store.reads < 4 {
			t.Errorf("told %v of %d reads, want the error once", told, store.reads)
		}
		store.err = nil
		<-time.After(2 * time.Hour)
		cancel()
		<-done
		if len(told) != 2 || told[1] != nil {
			t.Errorf("told %v, want nil after the last error", told)
		}
	})
}

// Calls for targets that came during a read share the next one: the read may have begun before they had their targets.
func TestGuard_LoadOfTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		g := New(Options{
			Store: store, Now: time.Now, Changed: func(state.ClusterName) {},
			Place: func(state.ClusterName) (types.UID, int64, error) { return "", 1, nil },
		})
		began, done := time.Now(), make(chan error)
		load := func(target state.ClusterName) {
			go func() { done <- g.load(t.Context(), target, place{string(target), 1}) }()
			synctest.Wait()
		}
		for _, target := range []state.ClusterName{"first", "second", "third", "second"} {
			load(target)
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 2*time.Hour || store.reads != 2 {
			t.Errorf("%d reads in %s, want two", store.reads, took)
		}
		load("third")
		if err := <-done; err != nil || store.reads != 2 {
			t.Errorf("%d reads for a target that is known: %v", store.reads, err)
		}
	})
}
