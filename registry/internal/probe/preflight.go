// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A preflight that found something missing is repeated soon, since an operator may be about to add it; a complete one
// now and then, and when a watch finds that a kind is gone. A second one must confirm a loss, because a starting API
// server does not serve everything at once.
const (
	preflightRetry    = 10 * time.Second
	preflightInterval = time.Minute
	confirmPause      = 3 * time.Second
	withoutQuestions  = 5 * time.Minute
	PreflightMinPause = 500 * time.Millisecond // between two preflights
)

// Pauses are intervals that tests shorten. The zero Pauses are those of NewPauses.
type Pauses struct {
	Retry    time.Duration // after a preflight that found something missing
	Interval time.Duration // after a complete preflight
	Confirm  time.Duration // before the preflight which confirms that something is gone
}

// NewPauses returns the intervals of a hub.
func NewPauses() Pauses {
	return Pauses{Retry: preflightRetry, Interval: preflightInterval, Confirm: confirmPause}
}

// preflightLoop ends with its Connection.
type preflightLoop struct {
	connection *Connection
	report     func(*machine.PreflightResult)
	kick       chan struct{} // triggers a preflight

	mu        sync.Mutex // protects questions and cancel
	questions *machine.Questions
	cancel    context.CancelFunc // of the current preflight

	last *machine.PreflightResult // used by the goroutine of run only
}

// Preflight replaces the questions; nil stops it. Only the Connection's actor calls it.
func (c *Connection) Preflight(q *machine.Questions, report func(*machine.PreflightResult)) {
	if c.loop == nil {
		if q == nil {
			return
		}
		c.loop = &preflightLoop{connection: c, report: report, kick: make(chan struct{}, 1), questions: q}
		c.loops.Go(func() { c.loop.run(c.ctx) })
		return
	}
	c.loop.setQuestions(q)
}

// PreflightNow repeats the preflight without waiting for the end of the interval.
func (c *Connection) PreflightNow() {
	if c.loop != nil {
		c.loop.trigger()
	}
}

// setQuestions cancels a preflight with other questions.
func (p *preflightLoop) setQuestions(q *machine.Questions) {
	p.mu.Lock()
	same := p.questions == q
	p.questions = q
	if !same && p.cancel != nil {
		p.cancel()
	}
	p.mu.Unlock()
	if !same {
		p.trigger()
	}
}

func (p *preflightLoop) trigger() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// begin's context ends when the questions are replaced.
func (p *preflightLoop) begin(ctx context.Context) (context.Context, *machine.Questions) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
	return ctx, p.questions
}

func (p *preflightLoop) run(ctx context.Context) {
	for {
		pause := withoutQuestions
		if requests, q := p.begin(ctx); q != nil {
			found := p.connection.takeEarly(requests, q)
			if found == nil {
				found = p.confirm(requests, q, p.last)
			}
			if requests.Err() == nil && !found.Equal(p.last) {
				p.last = found
				p.report(found)
			}
			if pause = p.connection.shared.Pauses.Retry; found.Complete() {
				pause = p.connection.shared.Pauses.Interval
			}
		}
		p.cancel()
		if !p.wait(ctx, pause) {
			return
		}
	}
}

// wait returns after a pause or a trigger; false when ctx has ended.
func (p *preflightLoop) wait(ctx context.Context, pause time.Duration) bool {
	longest := time.After(pause)
	select {
	case <-time.After(min(PreflightMinPause, pause)):
	case <-ctx.Done():
		return false
	}
	select {
	case <-longest:
	case <-p.kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// confirm repeats the preflight if something is no longer there.
func (p *preflightLoop) confirm(ctx context.Context, q *machine.Questions, before *machine.PreflightResult) *machine.PreflightResult {
	found := p.connection.sendPreflight(ctx, q, before)
	if !found.LostSince(before) {
		return found
	}
	select {
	case <-time.After(p.connection.shared.Pauses.Confirm):
	case <-ctx.Done():
		return found
	}
	return p.connection.sendPreflight(ctx, q, before)
}

// maxGroupsAtOnce requests for groups.
const maxGroupsAtOnce = 4

func (c *Connection) sendPreflight(ctx context.Context, q *machine.Questions, before *machine.PreflightResult) *machine.PreflightResult {
	found := &machine.PreflightResult{Questions: q, Served: map[schema.GroupVersionKind]bool{}}
	var (
		mu       sync.Mutex // protects found.Served
		requests errgroup.Group
	)
	requests.SetLimit(maxGroupsAtOnce)
	for gv, kinds := range byGroupVersion(q.Kinds) {
		requests.Go(func() error {
			served, err := c.servedKinds(ctx, gv)
			if err != nil {
				return nil // The kinds of this version remain unknown.
			}
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range kinds {
				found.Served[kind] = served[kind.Kind]
			}
			return nil
		})
	}
	if len(q.Rules) > 0 {
		requests.Go(func() error {
			lacking, err := (Reviewer{c.post}).Missing(ctx, q)
			if err != nil {
				_, found.Unknown = kubeconfig.Classify(err)
			}
			found.Missing = lacking
			return nil
		})
	}
	_ = requests.Wait() // No failure of a request fails the other requests.
	found.Keep(before)
	return found
}

func byGroupVersion(kinds []schema.GroupVersionKind) map[schema.GroupVersion][]schema.GroupVersionKind {
	all := map[schema.GroupVersion][]schema.GroupVersionKind{}
	for _, kind := range kinds {
		all[kind.GroupVersion()] = append(all[kind.GroupVersion()], kind)
	}
	return all
}

// servedKinds requests one version of a group alone, whose response is small in every Kubernetes.
func (c *Connection) servedKinds(ctx context.Context, gv schema.GroupVersion) (map[string]bool, error) {
	path := "apis/" + gv.Group + "/" + gv.Version
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	var list struct{ Resources []struct{ Name, Kind string } }
	err := c.get(ctx, path, &list)
	if status, ok := errors.AsType[*kubeconfig.StatusError](err); ok && status.Code == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", gv, err)
	}
	kinds := map[string]bool{}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") { // A subresource may be of a kind that is not served by itself.
			kinds[r.Kind] = true
		}
	}
	return kinds, nil
}
