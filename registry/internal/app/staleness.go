// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

// NoteStale adds the Stale informers of an App that runs, or is warm, to its status. Modules and leases continue with
// the cached objects, so the remote stays in its state. The condition of a warm App does not become True.
func (l *Life) NoteStale(info *state.Status, now time.Time) {
	stale := l.Stale(now)
	if len(stale) == 0 {
		return
	}
	for i, m := range info.Modules {
		of := slices.IndexFunc(stale, func(one cache.InformerStatus) bool { return slices.Contains(one.Modules, m.Name) })
		if of >= 0 && m.State == state.ModuleRunning {
			info.Modules[i].Reason, info.Modules[i].Message = state.ReasonStale, state.Sanitize(stale[of].Message())
			info.Modules[i].Problem = stale[of].Problem
		}
	}
	if info.App.Status != metav1.ConditionTrue && info.State != state.StateWarm {
		return
	}
	before := info.App.Status
	if info.App = staleCondition(stale, now, l.Limits); info.App.Status == metav1.ConditionTrue {
		info.App.Status = before
	}
	info.Summarize()
}

// Stale returns the informers of the App that have lost the contact to the API server.
func (l *Life) Stale(now time.Time) []cache.InformerStatus {
	c := l.cache.Load()
	if c == nil {
		return nil
	}
	return c.Stale(now)
}

// Blind returns the kind of an informer or other source of the module that has not synced or is Stale; empty if there
// is none.
func (l *Life) Blind(module string) string {
	now := time.Now()
	if c := l.cache.Load(); c != nil {
		if kind := c.Blind(module, now); kind != "" {
			return kind
		}
	}
	return l.blindSource(module, now)
}

func staleCondition(stale []cache.InformerStatus, now time.Time, l Limits) state.Condition {
	first := slices.MinFunc(stale, func(x, y cache.InformerStatus) int { return x.Since.Compare(y.Since) })
	f := state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonStale, Message: first.Message(), Problem: first.Problem}
	if now.Sub(first.Since) >= l.StaleAfter+l.StaleTolerance {
		f.Status = metav1.ConditionFalse
	}
	if len(first.Modules) > 0 {
		f.Message = "module " + strconv.Quote(first.Modules[0]) + ": " + f.Message
	}
	if n := len(stale) - 1; n > 0 {
		f.Message += fmt.Sprintf(" The same applies to %d other kinds.", n)
	}
	f.Message = state.Sanitize(f.Message)
	return f
}

// source is what a module watches beside the cache.
type source struct {
	module string
	blind  func(now time.Time) string
}

// AddSource adds a source of a module until remove is called. blind returns the kind of its objects if they are not
// current, otherwise nothing; it must return at once.
func (l *Life) AddSource(module string, blind func(now time.Time) string) (remove func()) {
	one := &source{module, blind}
	l.sources.Store(one, nil)
	return func() { l.sources.Delete(one) }
}

func (l *Life) blindSource(module string, now time.Time) (kind string) {
	l.sources.Range(func(one, _ any) bool {
		if s, _ := one.(*source); s.module == module {
			kind = s.blind(now)
		}
		return kind == ""
	})
	return kind
}

// Go runs f in a goroutine of the Life; f must return when the context of the Life ends. If it has ended, Go returns
// false and does not call f.
func (l *Life) Go(f func()) bool {
	if l.ctx.Err() != nil || !l.hooks.hold() {
		return false
	}
	go func() {
		defer l.hooks.running.Done()
		f()
	}()
	return true
}
