// SPDX-License-Identifier: Apache-2.0

package cache

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

// Informers that have lost contact after the start of the app. They report errors to no caller that knows the time:
// each retries, and reads from its store continue.

func (i *Informer) note(change func(f *freshness, now time.Time)) {
	now := time.Now()
	i.notes.Lock()
	before, _ := i.freshness.blocked(now)
	change(&i.freshness, now)
	after, _ := i.freshness.blocked(now)
	i.notes.Unlock()
	if !before.IsZero() || !after.IsZero() {
		i.budget.checkStale()
	}
}

// listed ignores the end of the informer.
func (i *Informer) listed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	i.note(func(f *freshness, now time.Time) { f.listed(causeOf(err), now) })
}

// refused returns the error for the reflector. Of a streamed list, an expired newest version makes it repeat the
// request at once without end, and a refused connection or a 429 makes it wait up to a minute, also when the App has
// ended. With another error it lists, and then waits until it retries or the App ends.
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

// notStreamed: the API server refuses to stream lists of the group, or does not end them.
func (i *Informer) notStreamed() { i.budget.options.Unstreamed.add(i.gvk.Group) }

// mayStream refuses a stream from the newest version as well: a reflector whose stream ends at once with an expired
// version repeats it at once.
func (i *Informer) mayStream(version string) error {
	if i.budget.options.Unstreamed.has(i.gvk.Group) {
		return errNotStreamed
	}
	i.notes.Lock()
	defer i.notes.Unlock()
	if version == "" && i.emptyStreams >= maxEmptyStreams {
		i.emptyStreams = 0
		return errNotStreamed
	}
	return nil
}

func (i *Informer) watching() {
	version := i.LastSyncResourceVersion()
	i.note(func(f *freshness, now time.Time) { f.watching(version, now) })
}

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

// Silent implements transport.WatchObserver. Without a watch cache, as for Events, an API server sends no bookmarks,
// and silence means nothing.
func (i *Informer) Silent() {
	if i.bookmarks.Load() {
		i.note((*freshness).fellSilent)
	}
}

// SendsBookmarks implements transport.WatchObserver.
func (i *Informer) SendsBookmarks() { i.bookmarks.Store(true) }

// Received implements transport.WatchObserver.
func (i *Informer) Received() {
	i.notes.Lock()
	first := !i.freshness.received
	i.notes.Unlock()
	if first {
		i.note(func(f *freshness, _ time.Time) { f.received = true })
	}
}

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

func (i *Informer) status(now time.Time) InformerStatus {
	users := i.users()
	i.notes.Lock()
	defer i.notes.Unlock()
	since, why := i.freshness.blocked(now)
	return InformerStatus{Kind: i.kind, Modules: users, Since: since, Cause: why.text, Problem: why.problem}
}

func (i InformerStatus) isStale(now time.Time, l Limits) bool {
	return i.Cause != "" && now.Sub(i.Since) >= l.StaleAfter
}

// Stale returns the stale informers, of each kind the longest blocked one.
func (b *budget) Stale(now time.Time) []InformerStatus {
	kinds := map[string]InformerStatus{}
	for _, i := range b.inUse() {
		one := i.status(now)
		worst, known := kinds[one.Kind]
		if one.isStale(now, b.options.Limits) && (!known || one.Since.Before(worst.Since)) {
			kinds[one.Kind] = one
		}
	}
	return slices.SortedFunc(maps.Values(kinds), func(x, y InformerStatus) int { return cmp.Compare(x.Kind, y.Kind) })
}

// Blind returns the kind of an informer that a module uses and that has not synced or is stale; empty if there is none.
func (b *budget) Blind(module string, now time.Time) string {
	for _, i := range b.inUse() {
		one := i.status(now)
		if slices.Contains(one.Modules, module) && (!i.HasSynced() || one.isStale(now, b.options.Limits)) {
			return i.kind
		}
	}
	return ""
}

// checkStale calls Options.Stale, now and when the passing of time may change the result.
func (b *budget) checkStale() {
	now := time.Now()
	var times []time.Time
	for _, i := range b.inUse() {
		i.notes.Lock()
		times = append(times, i.freshness.next(now, b.options.Limits))
		i.notes.Unlock()
	}
	next := soonest(now, times...)
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
