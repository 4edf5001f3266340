// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

const rightsTimeout = 20 * time.Second

// lacks names the declared permissions that the hub does not have, as an operator would ask for them. Also a standby may ask.
func (l *Run) lacks() ([]string, error) {
	ctx, cancel := context.WithTimeout(l.Context(), rightsTimeout)
	defer cancel()
	hub, err := client.New(l.config(), client.Options{Mapper: l.HubMapper})
	if err != nil {
		return nil, fmt.Errorf("build the client that asks for permissions: %w", err)
	}
	return probe.Reviewer{Post: func(ctx context.Context, review client.Object) error { return hub.Create(ctx, review) }}.Lacking(ctx, l.part.module.Rules)
}

func (l *Run) awaitRights() error {
	if len(l.part.module.Rules) == 0 {
		return nil
	}
	for {
		missing, err := l.lacks()
		switch {
		case l.Context().Err() != nil:
			return context.Cause(l.Context())
		case err != nil:
			_, message := kubeconfig.Classify(err)
			l.part.setState(state.ModuleWaiting, state.ReasonPending, "failed to ask the hub's API server for the permissions that the module declares: "+message)
		case len(missing) > 0:
			l.part.setState(state.ModuleWaiting, state.ReasonRightsMissing, lackOf(missing))
		default:
			l.part.granted()
			return nil
		}
		if !l.pause(l.part.supervisor.Pauses.Retry) {
			return context.Cause(l.Context())
		}
	}
}

// watchRights reports revoked permissions while the part runs, which continues.
func (l *Run) watchRights() {
	if len(l.part.module.Rules) == 0 {
		return
	}
	pauses := l.part.supervisor.Pauses
	pause := pauses.Interval
	for l.pause(pause) {
		missing, err := l.lacks()
		if err != nil {
			continue // the permissions are unknown then
		}
		pause = pauses.Interval
		if len(missing) > 0 {
			pause = pauses.Retry
		}
		l.part.lack(missing)
	}
}

// pause returns after a time, or when a watch was forbidden; false when the life has ended.
func (l *Run) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-l.denied:
		select { // for a watch that is forbidden repeatedly
		case <-time.After(probe.PreflightMinPause):
		case <-l.halted.Done():
		}
	case <-l.halted.Done():
	}
	return l.halted.Err() == nil
}

func (l *Run) askAgain() {
	select {
	case l.denied <- struct{}{}:
	default:
	}
}

func (p *part) granted() {
	p.mu.Lock()
	if p.over.Reason == state.ReasonRightsMissing || p.over.Reason == state.ReasonPending {
		p.over = state.ModuleStatus{}
	}
	p.mu.Unlock()
	p.lack(nil)
}

func (p *part) lack(missing []string) {
	p.mu.Lock()
	same := slices.Equal(p.lacking, missing)
	p.lacking = missing
	p.mu.Unlock()
	if !same {
		p.changed()
	}
}

func lackOf(rights []string) string { return "the hub lacks: " + strings.Join(rights, ", ") }
