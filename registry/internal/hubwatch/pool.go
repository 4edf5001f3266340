// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// Options describe a Pool. All fields but Hidden are required.
type Options struct {
	Hub       *rest.Config
	Transport http.RoundTripper
	Mapper    meta.RESTMapper
	Scheme    *runtime.Scheme
	Schemas   *meter.Schemas
	UserAgent string
	Log       logr.Logger
	// Timeout is for requests that are neither lists nor watches.
	Timeout time.Duration
	// StaleAfter is how long an informer may fail before its objects are no longer current, StaleTolerance how long
	// users tolerate that.
	StaleAfter, StaleTolerance time.Duration
	// Hidden is a namespace that no subscription sees. Default: none.
	Hidden string
}

// Selection selects the objects of an informer.
type Selection struct {
	// Object is an empty object of the kind, in the form in which objects are kept.
	Object client.Object
	Kind   schema.GroupVersionKind
	// Namespaces have the objects; none for all.
	Namespaced bool
	Namespaces []string
	// Labels is nil for all objects.
	Labels labels.Selector
}

// Name returns the same text for equal selections, and only for these.
func (s Selection) Name() string {
	text := fmt.Sprintf("%s as %T", s.Kind, s.Object)
	if s.Labels != nil && !s.Labels.Empty() {
		text += " with " + s.Labels.String()
	}
	if !s.isEverywhere() {
		text += " in " + strings.Join(slices.Compact(slices.Sorted(slices.Values(s.Namespaces))), ",")
	}
	return text
}

// isEverywhere: the empty namespace says so, too.
func (s Selection) isEverywhere() bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, "")
}

// Want describes a Subscription.
type Want struct {
	Route Route
	// Keys make no difference for the Route All.
	Keys []string
	// Blocked gets the Subscription's Type and why its objects cannot be listed, and the zero Block when they can. It
	// must return at once.
	Blocked func(what string, why cache.Block)
}

// Pool has the informers of the hub's objects. It is safe for many goroutines.
type Pool struct {
	options Options
	ctx     context.Context //nolint:containedctx // The life of the Pool, which subscriptions outlive.
	end     context.CancelCauseFunc
	running sync.WaitGroup // the informers; added to while ctx has not ended

	mu      sync.Mutex // protects the fields, and the users of the entries
	entries map[string]*entry
}

// ErrClosed is the error of a Pool that was closed.
var ErrClosed = errors.New("the informers of the hub's objects have ended")

// NewPool returns a Pool without informers, with the values of ctx and not its end. It sends no request. The caller
// must call Close.
func NewPool(ctx context.Context, o Options) *Pool {
	p := &Pool{options: o, entries: map[string]*entry{}}
	p.ctx, p.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return p
}

// Close ends all informers, and returns when their goroutines have ended.
func (p *Pool) Close() {
	p.mu.Lock()
	p.end(ErrClosed)
	p.mu.Unlock()
	p.running.Wait()
}

// Subscribe sends no request: the objects arrive later. The caller must close the Subscription.
func (p *Pool) Subscribe(s Selection, w Want) (*Subscription, error) {
	made, err := p.subscribe(s, w)
	if err != nil {
		return nil, err
	}
	made.entry.tell(made)
	return made, nil
}

func (p *Pool) subscribe(s Selection, w Want) (*Subscription, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil, context.Cause(p.ctx)
	}
	name := s.Name()
	e := p.entries[name]
	if e == nil {
		var err error
		if e, err = p.newEntry(s); err != nil {
			return nil, fmt.Errorf("build the informer of %s: %w", name, err)
		}
		p.entries[name] = e
		p.running.Go(e.run)
	}
	e.users++
	return e.subscribe(w), nil
}

func (p *Pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	delete(p.entries, e.of.Name())
	e.end()
}

// Informers returns the number of informers that have subscriptions.
func (p *Pool) Informers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}
