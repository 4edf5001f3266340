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
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// This file finds informers that have lost contact with their remote after the app has started. Informers report errors
// to no caller that knows the time: each one retries, and reads from its store continue.

// note changes the freshness of the informer, and schedules a check if the informer is blocked.
func (i *Informer) note(change func(f *freshness, now time.Time)) {
	now := time.Now()
	i.mu.Lock()
	before, _ := i.freshness.blocked(now)
	change(&i.freshness, now)
	after, _ := i.freshness.blocked(now)
	i.mu.Unlock()
	if !before.IsZero() || !after.IsZero() {
		i.budget.checkStale()
	}
}

// listed notes the outcome of a list. The end of the informer is no outcome.
func (i *Informer) listed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	i.note(func(f *freshness, now time.Time) { f.listed(causeOf(err), now) })
}

// refused notes that the API server has refused a watch, and returns the error for the reflector.
//
// Two kinds of errors of a streamed list are not for a reflector. If the newest version has expired, it repeats the request
// at once, without end. If the connection was refused or the code is 429, it waits before it repeats the request, for up to
// a minute and also when the App has ended. With another error it lists, and then waits until it retries or the App ends.
func (i *Informer) refused(ctx context.Context, err error, o metav1.ListOptions) error {
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	if streams && apierrors.IsInvalid(err) { // It does not know the option.
		i.notStreamed()
		return errNotStreamed
	}
	if ctx.Err() == nil { // The end of the informer is no refusal.
		i.note(func(f *freshness, now time.Time) { f.refused(causeOf(err), now) })
	}
	waits := utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	if streams && (waits || o.ResourceVersion == "" && expired) {
		return errNotStreamed
	}
	return err
}

// errNotStreamed makes a reflector list instead of streaming a list.
var errNotStreamed = errors.New("the API server cannot stream the objects")

// maxEmptyStreams is how many streamed lists in a row may end at once before the informer lists without streaming.
const maxEmptyStreams = 3

// notStreamed notes that the API server cannot stream lists of the group: it refuses to, or does not end them.
func (i *Informer) notStreamed() { i.budget.options.Unstreamed.add(i.gvk.Group) }

// mayStream returns an error if the informer should not stream a list: if the API server cannot, and from the newest version, since a
// reflector whose stream ends at once with an event of an expired version repeats it at once, too.
func (i *Informer) mayStream(version string) error {
	if i.budget.options.Unstreamed.has(i.gvk.Group) {
		return errNotStreamed
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if version == "" && i.emptyStreams >= maxEmptyStreams {
		i.emptyStreams = 0
		return errNotStreamed
	}
	return nil
}

// watching notes that the API server has accepted a watch.
func (i *Informer) watching() {
	version := i.LastSyncResourceVersion()
	i.note(func(f *freshness, now time.Time) { f.watching(version, now) })
}

// watchEnded notes that the watch has ended.
func (i *Informer) watchEnded() {
	version := i.LastSyncResourceVersion()
	i.note(func(f *freshness, now time.Time) {
		i.emptyStreams++
		if f.version != version || f.follows(now) {
			i.emptyStreams = 0
		}
		f.ended(version, now)
	})
}

// Silent implements transport.WatchObserver. An API server without a watch cache for the kind sends no bookmarks, such
// as kube-apiserver for Events: its silence means nothing.
func (i *Informer) Silent() {
	if i.bookmarks.Load() {
		i.note((*freshness).fellSilent)
	}
}

// AwaitsBookmarks implements transport.WatchObserver.
func (i *Informer) AwaitsBookmarks() bool { return !i.bookmarks.Load() }

// SendsBookmarks implements transport.WatchObserver.
func (i *Informer) SendsBookmarks() { i.bookmarks.Store(true) }

// Received implements transport.WatchObserver.
func (i *Informer) Received() {
	i.mu.Lock()
	first := !i.freshness.received
	i.mu.Unlock()
	if first {
		i.note(func(f *freshness, _ time.Time) { f.received = true })
	}
}

// causeOf returns why a list or watch failed; zero for a nil error.
func causeOf(err error) cause {
	var panicked *panics.Error
	var explained *explainedError
	switch {
	case err == nil:
		return cause{}
	case errors.As(err, &explained):
		text := explained.why
		return cause{strings.ToUpper(text[:1]) + text[1:] + ".", explained.problem}
	case errors.As(err, &panicked):
		return cause{text: "The hub cannot decode the response of the API server."}
	case apierrors.IsForbidden(err):
		return cause{text: "The credentials lack the permission to list and watch (status 403); grant it in the remote cluster."}
	case apierrors.IsNotFound(err):
		return cause{text: "The API server no longer serves them in this version (status 404); check the CRD or the API service."}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return cause{text: "The API server refuses the resource version as expired (status 410); check its log, and proxies in between."}
	}
	_, message := kubeconfig.Classify(err)
	return cause{message, problemOf(err)}
}

// problemOf returns the problem behind an error of a request.
func problemOf(err error) state.Problem {
	if errors.Is(err, meter.ErrTooLarge) {
		return state.Problem{Kind: state.ProblemResponseTooLarge}
	}
	return state.Problem{}
}

// InformerStatus is the status of an informer of an app.
type InformerStatus struct {
	Kind    string
	Modules []string // the modules that use it, sorted
	Since   time.Time
	Cause   string        // why it has been unable to list and watch since then; empty if it can
	Problem state.Problem // for advice that is not in Cause
}

// statuses returns the status of each informer, in the order of their kinds.
func (b *budget) statuses(now time.Time) []InformerStatus {
	var all []InformerStatus
	for _, s := range b.inUse() {
		one := InformerStatus{Kind: s.kind}
		s.mu.Lock()
		since, why := s.freshness.blocked(now)
		one.Since, one.Cause, one.Problem = since, why.text, why.problem
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

// stale returns the stale informers, of each kind the informer that has been blocked the longest.
func (b *budget) stale(now time.Time) []InformerStatus {
	kinds := map[string]InformerStatus{}
	for _, one := range b.statuses(now) {
		worst, known := kinds[one.Kind]
		if one.isStale(now, b.options.Limits) && (!known || one.Since.Before(worst.Since)) {
			kinds[one.Kind] = one
		}
	}
	return slices.SortedFunc(maps.Values(kinds), func(x, y InformerStatus) int { return cmp.Compare(x.Kind, y.Kind) })
}

// blind returns the kind of an informer that a module uses and that has not synced or is stale; empty if there is none.
func (b *budget) blind(module string, now time.Time) string {
	for _, i := range b.inUse() {
		if !slices.Contains(i.Users(), module) {
			continue
		}
		one := InformerStatus{}
		i.mu.Lock()
		since, why := i.freshness.blocked(now)
		i.mu.Unlock()
		one.Since, one.Cause = since, why.text
		if !i.HasSynced() || one.isStale(now, b.options.Limits) {
			return i.kind
		}
	}
	return ""
}

// checkStale calls Options.Stale, now and whenever an informer may become stale or recover by the passing of time.
func (b *budget) checkStale() {
	now := time.Now()
	var next time.Time
	for _, s := range b.inUse() {
		s.mu.Lock()
		if at := s.freshness.next(now, b.options.Limits); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		s.mu.Unlock()
	}
	b.mu.Lock()
	if b.options.Context.Err() == nil && !next.IsZero() {
		b.staleTimer.Reset(next.Sub(now))
	}
	b.mu.Unlock()
	b.options.Stale()
}

// Message returns a text that describes why the objects are stale.
func (i InformerStatus) Message() string {
	text := "the cached objects of " + i.Kind + " are stale: they cannot be listed and watched since " +
		i.Since.UTC().Format(time.RFC3339)
	if len(i.Modules) > 1 {
		text += " (used by " + strings.Join(i.Modules, ", ") + ")"
	}
	return text + ". " + i.Cause
}
