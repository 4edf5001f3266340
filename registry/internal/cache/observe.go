// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

func (i *Informer) list(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
	i.streamed.Store(false)
	if o.Continue == "" {
		i.begin()
	}
	err = panics.Catch(func() (err error) {
		return CheckDecoded(transport.WithObserver(ctx, i), "list "+i.typeName, func(ctx context.Context) (err error) {
			list, err = i.remote.ListWithContext(ctx, o)
			return err
		})
	})
	err = i.explained(err)
	i.notePanic(err)
	i.listed(ctx, err)
	if err == nil {
		i.budget.options.Blocked(i.typeName, Block{})
		err = i.addPage(list, o.Continue != "")
	}
	return list, err
}

func (i *Informer) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	if streams {
		if err := i.mayStream(o.ResourceVersion); err != nil {
			return nil, err
		}
		i.streamed.Store(true)
		i.streaming.Store(true)
		i.looks.Store(0)
		i.begin()
	}
	w, err := i.remote.WatchWithContext(transport.WithObserver(ctx, i), o)
	if err != nil {
		return nil, i.refused(ctx, i.explained(err), o)
	}
	i.budget.options.Blocked(i.typeName, Block{})
	i.watching()
	watched := &drainedWatch{Interface: w, ended: i.watchEnded}
	if streams {
		i.awaitList(watched, time.Now())
	}
	return watched, nil
}

// notePanic shows that the remote cannot deliver these objects: only its response can make a decoder panic.
func (i *Informer) notePanic(err error) {
	if panicked, ok := errors.AsType[*panics.Error](err); ok {
		i.budget.options.Log.Error(err, "Failed to decode a list", "kind", i.kind, "stack", string(panicked.Stack))
	}
}

func (i *Informer) users() []string {
	i.budget.mu.Lock()
	defer i.budget.mu.Unlock()
	return slices.Clone(i.budget.watchers[i.kind])
}

// Forbidden implements transport.WatchObserver.
func (i *Informer) Forbidden(r *http.Request) {
	var why cause
	for _, module := range i.users() {
		if i.budget.options.Undeclared == nil || why.text != "" {
			break
		}
		why.text, why.problem = i.budget.options.Undeclared(module, r)
	}
	i.notes.Lock()
	defer i.notes.Unlock()
	i.explanation = why
}

// explained adds the explanation to a refusal.
func (i *Informer) explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	i.notes.Lock()
	defer i.notes.Unlock()
	if i.explanation.text == "" {
		return err
	}
	return &explainedError{i.explanation.text, i.explanation.problem, err}
}

type explainedError struct {
	why     string
	problem state.Problem
	refusal error
}

func (e *explainedError) Error() string { return e.why }

func (e *explainedError) Unwrap() error { return e.refusal }
