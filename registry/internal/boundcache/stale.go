// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// What is in this file shows informers that have lost touch with their remote after the app has started. Informers
// report errors to nobody who would know the time: each retries on its own, and reads from its store go on.

// note changes what is known of the informer's freshness, and has it looked at when it matters.
func (s *Informer) note(change func(f *freshness, now time.Time)) {
	now := time.Now()
	s.mu.Lock()
	before, _ := s.follows.blocked(now)
	change(&s.follows, now)
	after, _ := s.follows.blocked(now)
	s.mu.Unlock()
	if !before.IsZero() || !after.IsZero() {
		s.budget.lookAtInformers()
	}
}

// listed notes the outcome of a list. The end of the informer is none.
func (s *Informer) listed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.note(func(f *freshness, now time.Time) { f.listed(causeOf(err), now) })
}

// refused notes that a watch was not accepted, and returns what to tell the reflector.
//
// A reflector that is told of an expired version by a request for the newest one asks again at once, without end. It
// is told something else, lists, and then waits before it tries again.
func (s *Informer) refused(ctx context.Context, err error, newest bool) error {
	if ctx.Err() != nil {
		return err
	}
	s.note(func(f *freshness, now time.Time) { f.refused(causeOf(err), now) })
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if newest && (expired || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)) {
		return errNotStreamed
	}
	return err
}

// errNotStreamed makes a reflector list in place of streaming a list.
var errNotStreamed = errors.New("the API server cannot stream the objects")

// maxVain is how many streamed lists in a row may end at once before the informer lists in another way.
const maxVain = 3

// mayStream returns an error if a list had better not be streamed from the newest version: a reflector whose stream
// ends at once with an event of an expired version begins the next one at once, too.
func (s *Informer) mayStream(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" && s.vain >= maxVain {
		s.vain = 0
		return errNotStreamed
	}
	return nil
}

// watching notes that a watch was accepted.
func (s *Informer) watching() {
	version := s.LastSyncResourceVersion()
	s.note(func(f *freshness, now time.Time) { f.watching(version, now) })
}

// watchEnded notes that the watch has ended.
func (s *Informer) watchEnded() {
	version := s.LastSyncResourceVersion()
	s.note(func(f *freshness, now time.Time) {
		s.vain++
		if f.version != version || f.follows(now) {
			s.vain = 0
		}
		f.ended(version, now)
	})
}

// Silent implements transport.WatchObserver. An API server without a watch cache for the kind sends no bookmarks, as kube-apiserver
// for Events: its silence means nothing.
func (s *Informer) Silent() {
	if s.bookmarks.Load() {
		s.note((*freshness).fellSilent)
	}
}

// AwaitsBookmarks implements transport.WatchObserver.
func (s *Informer) AwaitsBookmarks() bool { return !s.bookmarks.Load() }

// SendsBookmarks implements transport.WatchObserver.
func (s *Informer) SendsBookmarks() { s.bookmarks.Store(true) }

// Received implements transport.WatchObserver.
func (s *Informer) Received() {
	s.mu.Lock()
	first := !s.follows.heard
	s.mu.Unlock()
	if first {
		s.note(func(f *freshness, _ time.Time) { f.heard = true })
	}
}

// causeOf says in fixed words why a list or watch failed; it is empty for a nil error.
func causeOf(err error) string {
	var panicked *panics.Error
	var explained *explainedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &explained):
		text := explained.why
		return strings.ToUpper(text[:1]) + text[1:] + "."
	case errors.As(err, &panicked):
		return "The hub cannot decode the response of the API server."
	case apierrors.IsForbidden(err):
		return "The credentials lack the right to list and watch (status 403); grant it in the remote cluster."
	case apierrors.IsNotFound(err):
		return "The API server does not serve them in this version any more (status 404); look at the CRD or the API service."
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return "The API server refuses the resource version as expired (status 410); look at its log, and at proxies in between."
	}
	_, message := kubeconfig.Classify(err)
	return message
}

// InformerStatus is what is known of an informer of an app.
type InformerStatus struct {
	Kind    string
	Modules []string // that started it or read from it, sorted
	synced  bool     // it had all initial objects once
	Since   time.Time
	Cause   string // why it has been unable to list and watch since then; empty if it is not known to be
}

// informers returns what is known of the informers, in the order of their kinds.
func (b *budget) informers(now time.Time) []InformerStatus {
	var all []InformerStatus
	for _, s := range b.inUse() {
		one := InformerStatus{Kind: s.kind, synced: s.HasSynced()}
		s.mu.Lock()
		one.Since, one.Cause = s.follows.blocked(now)
		s.mu.Unlock()
		all = append(all, one)
	}
	b.mu.Lock()
	for i := range all {
		all[i].Modules = slices.Clone(b.watchers[all[i].Kind])
	}
	b.mu.Unlock()
	slices.SortStableFunc(all, func(x, y InformerStatus) int { return cmp.Compare(x.Kind, y.Kind) })
	return all
}

// isStale reports whether the informer has been unable to list and watch for too long.
func (i InformerStatus) isStale(now time.Time, l Limits) bool {
	return i.Cause != "" && now.Sub(i.Since) >= l.StaleAfter
}

// lagsFor returns the first informer of a module that is not synced or Stale, and whether there is one: what its store
// lacks may be there.
func (b *budget) lagsFor(module string, now time.Time) (InformerStatus, bool) {
	for _, one := range b.informers(now) {
		if slices.Contains(one.Modules, module) && (!one.synced || one.isStale(now, b.options.Limits)) {
			return one, true
		}
	}
	return InformerStatus{}, false
}

// stale returns the informers that are Stale, one for each kind: that which has been blocked for longest.
func (b *budget) stale(now time.Time) []InformerStatus {
	kinds := map[string]InformerStatus{}
	for _, one := range b.informers(now) {
		worst, known := kinds[one.Kind]
		if one.isStale(now, b.options.Limits) && (!known || one.Since.Before(worst.Since)) {
			kinds[one.Kind] = one
		}
	}
	return slices.SortedFunc(maps.Values(kinds), func(x, y InformerStatus) int { return cmp.Compare(x.Kind, y.Kind) })
}

// lookAtInformers tells the actor that an informer may have become Stale, or is no longer, now and whenever that may
// change by the passing of time.
func (b *budget) lookAtInformers() {
	now := time.Now()
	var next time.Time
	for _, s := range b.inUse() {
		s.mu.Lock()
		if at := s.follows.next(now, b.options.Limits); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		s.mu.Unlock()
	}
	b.mu.Lock()
	if b.options.Context.Err() == nil && !next.IsZero() {
		b.looking.Reset(next.Sub(now))
	}
	b.mu.Unlock()
	b.options.Stale()
}

// Message says what is wrong with the informer.
func (i InformerStatus) Message() string {
	text := "the cached objects of " + i.Kind + " are stale: they cannot be listed and watched since " +
		i.Since.UTC().Format(time.RFC3339)
	if len(i.Modules) > 1 {
		text += " (used by " + strings.Join(i.Modules, ", ") + ")"
	}
	return text + ". " + i.Cause
}
