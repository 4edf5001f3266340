// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// moduleManager is the manager as one module sees it. What the module adds to it is known to be
// the module's: a runnable that fails or panics ends the app with the module's name on it.
type moduleManager struct {
	ctrl.Manager
	module  string
	log     logr.Logger
	tracker *tracker
}

// GetLogger returns the module's logger.
func (m *moduleManager) GetLogger() logr.Logger { return m.log }

// Add adds a runnable on behalf of the module.
func (m *moduleManager) Add(r manager.Runnable) error {
	switch r.(type) {
	case *manager.Server, webhook.Server, interface{ GetCache() cache.Cache }:
		return m.Manager.Add(r) // the manager tells these apart by their type
	}
	one := contained{Runnable: r, module: m.module, tracker: m.tracker}
	if w, ok := r.(warmer); ok {
		m.tracker.controllerAdded(m.module)
		err := m.Manager.Add(&containedController{contained: one, warmer: w})
		if err != nil {
			m.tracker.controllerRefused(m.module)
		}
		return err
	}
	return m.Manager.Add(&one)
}

// warmer is what controller-runtime's controllers implement: Warmup starts their sources and
// returns when these have delivered the initial objects. It is how the app learns that a
// controller is ready to work.
type warmer interface {
	Warmup(ctx context.Context) error
}

// contained runs a runnable so that its failures are its module's.
type contained struct {
	manager.Runnable
	module  string
	tracker *tracker
}

var _ manager.LeaderElectionRunnable = (*contained)(nil)

// Start runs the runnable and returns its error or panic as the module's.
func (c *contained) Start(ctx context.Context) error {
	return c.wrap(ReasonModuleFailed, safely(func() error { return c.Runnable.Start(ctx) }))
}

// NeedLeaderElection passes on what the runnable says; controller-runtime's default is true.
func (c *contained) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return true
}

func (c *contained) wrap(reason string, err error) error {
	if err == nil {
		return nil
	}
	failed := &moduleError{module: c.module, reason: reason, err: err}
	c.tracker.moduleFailed(failed)
	return failed
}

// containedController is a contained controller.
type containedController struct {
	contained
	warmer warmer
}

// Warmup waits until the controller has seen its initial objects.
func (c *containedController) Warmup(ctx context.Context) error {
	err := safely(func() error { return c.warmer.Warmup(ctx) })
	if err == nil && ctx.Err() == nil {
		c.tracker.controllerSynced(c.module)
	}
	return c.wrap(ReasonModuleFailed, err)
}
