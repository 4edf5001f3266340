// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// EachOptions select remotes for Each, and limit its calls.
type EachOptions struct {
	Select      func(Status) bool // Select picks remotes; see MatchLabels. Default: all.
	Concurrency int               // Concurrency is how many calls run at the same time. Default 16.
	// Timeout is when the context of a call ends; a second later the call is left behind. Default 30 s.
	Timeout time.Duration
}

const (
	defaultEachConcurrency = 16
	defaultEachTimeout     = 30 * time.Second
)

// EachResult is the result for one remote.
type EachResult[T any] struct {
	Cluster ClusterName
	Value   T // Value is the function's result, also beside an error.
	// Err is the function's error as it is, or ErrNotReady, context.DeadlineExceeded, or its panic.
	Err      error
	Duration time.Duration // Duration is 0 for a remote that is not ready.
}

// NotReady reports whether the remote could not be used when its turn came.
func (r EachResult[T]) NotReady() bool { return errors.Is(r.Err, ErrNotReady) }

// Each calls f for every selected remote, some at a time, and returns the results sorted by name. Remotes do not affect each
// other. f gets a client as from WithClient, and a context that ends with ctx, at the timeout, or with the remote's app. When ctx
// ends, remotes without a call get its error.
//
// Each returns within a second of the end of the contexts. A call left behind keeps its goroutine, and reaches nothing once its
// remote is stopped.
func Each[T any](
	ctx context.Context, r *Registry, o EachOptions, f func(context.Context, ClusterName, client.Client) (T, error),
) []EachResult[T] {
	var results []EachResult[T]
	for _, info := range r.List() {
		if o.Select == nil || o.Select(info) {
			results = append(results, EachResult[T]{Cluster: info.Name})
		}
	}
	var calls errgroup.Group
	calls.SetLimit(cmp.Or(max(o.Concurrency, 0), defaultEachConcurrency))
	for i := range results {
		one := &results[i]
		calls.Go(func() error {
			if one.Err = context.Cause(ctx); one.Err != nil {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(o.Timeout, 0), defaultEachTimeout))
			defer cancel()
			one.call(ctx, func(ctx context.Context) (value T, err error) {
				err = r.WithClient(ctx, one.Cluster, func(ctx context.Context, remote client.Client) error {
					value, err = f(ctx, one.Cluster, remote)
					return err
				})
				return value, err
			})
			return nil
		})
	}
	_ = calls.Wait() // the errors are in the results
	return results
}

const eachGrace = time.Second

// call returns when f does, or soon after ctx has ended.
func (r *EachResult[T]) call(ctx context.Context, f func(context.Context) (T, error)) {
	type outcome struct {
		value T
		err   error
	}
	began := time.Now()
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: contain.ErrGoexit} // unless it returns
		defer func() { done <- o }()
		o.err = panics.Catch(func() (err error) {
			o.value, err = f(ctx)
			return err
		})
	}()
	grace := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(eachGrace, func() { close(grace) }) })()
	select {
	case o := <-done:
		r.Value, r.Err = o.value, o.err
	case <-grace:
		r.Err = fmt.Errorf("the call for %s did not return in time: %w", r.Cluster, context.Cause(ctx))
	}
	if !r.NotReady() {
		r.Duration = time.Since(began)
	}
}
