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

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Pace of surveys. One that found something missing is repeated soon, since somebody may be about to mend
// that; what is there is looked at now and then, and when a watch finds a kind gone. Something that is
// gone is taken for gone when a second look has not found it either: an API server that starts does not
// serve everything at once. A remote whose answers change all the time is asked less and less often,
// because every change may cost another app; the first surveyFree changes make no difference.
const (
	PreflightRetry    = 10 * time.Second
	PreflightInterval = time.Minute
	surveyConfirm     = 3 * time.Second
	PreflightMinPause = 500 * time.Millisecond // between any two, doubled with each change
	PreflightCalm     = 10 * time.Minute       // after which changes are forgotten
	PreflightMaxPause = 5 * time.Minute
	surveyFree        = 3
)

// surveyor asks one remote what its modules need to know. It belongs to a link, and ends with it.
type surveyor struct {
	link   *Connection
	report func(*preflight.Result)
	kick   chan struct{} // asks for a survey now

	mu     sync.Mutex // protects asked and cancel
	asked  *preflight.Questions
	cancel context.CancelFunc // of the survey under way

	// What follows belongs to run.
	last    *preflight.Result
	changes int       // of the findings, in a short time
	changed time.Time // the last of them
}

// Preflight makes the link ask these questions from now on; nil for none. It is called by the link's actor.
func (l *Connection) Preflight(q *preflight.Questions, report func(*preflight.Result)) {
	if l.surveyor == nil {
		if q == nil {
			return
		}
		l.surveyor = &surveyor{link: l, report: report, kick: make(chan struct{}, 1), asked: q}
		l.asking.Go(func() { l.surveyor.run(l.ctx) })
		return
	}
	l.surveyor.ask(q)
}

// PreflightNow asks again without waiting for its time to come.
func (l *Connection) PreflightNow() {
	if l.surveyor != nil {
		l.surveyor.now()
	}
}

func (s *surveyor) ask(q *preflight.Questions) {
	s.mu.Lock()
	same := s.asked == q
	s.asked = q
	if !same && s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	if !same {
		s.now()
	}
}

func (s *surveyor) now() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// begin returns the questions to ask now, and a context that ends when there are others.
func (s *surveyor) begin(ctx context.Context) (context.Context, *preflight.Questions) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	return ctx, s.asked
}

func (s *surveyor) run(ctx context.Context) {
	for {
		pause := PreflightMaxPause
		if asking, q := s.begin(ctx); q != nil {
			found := s.confirmed(asking, q, s.last)
			if asking.Err() == nil {
				s.take(found)
			}
			pause = surveyAgain(found.Complete(), s.changes)
		}
		s.cancel()
		if !s.wait(ctx, pause) {
			return
		}
	}
}

// take reports findings that differ from the last ones.
func (s *surveyor) take(found *preflight.Result) {
	if time.Since(s.changed) > PreflightCalm {
		s.changes = 0
	}
	if found.Equal(s.last) {
		return
	}
	if s.last != nil && s.last.Questions == found.Questions && found.Unknown == s.last.Unknown {
		s.changes, s.changed = min(s.changes+1, MaxChanges), time.Now()
	}
	s.last = found
	s.report(found)
}

// MaxChanges is as many as make a difference.
const MaxChanges = 10

// surveyAgain returns when to ask again, after so many changes in a short time.
func surveyAgain(complete bool, changes int) time.Duration {
	pause := PreflightRetry
	if complete {
		pause = PreflightInterval
	}
	return min(pause<<max(0, changes-surveyFree), PreflightMaxPause)
}

// wait returns after a pause, or when somebody asks for a survey. It reports false when ctx has ended.
func (s *surveyor) wait(ctx context.Context, pause time.Duration) bool {
	shortest, longest := time.NewTimer(min(PreflightMinPause<<s.changes, pause)), time.NewTimer(pause)
	defer shortest.Stop()
	defer longest.Stop()
	select {
	case <-shortest.C:
	case <-ctx.Done():
		return false
	}
	select {
	case <-longest.C:
	case <-s.kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// confirmed asks, and asks again where something is not there any more.
func (s *surveyor) confirmed(ctx context.Context, q *preflight.Questions, before *preflight.Result) *preflight.Result {
	found := s.link.survey(ctx, q, before)
	if !found.LostSince(before) {
		return found
	}
	confirm := time.NewTimer(surveyConfirm)
	defer confirm.Stop()
	select {
	case <-confirm.C:
	case <-ctx.Done():
		return found
	}
	return s.link.survey(ctx, q, before)
}

// surveyedAtOnce is how many groups a remote is asked for at the same time.
const surveyedAtOnce = 4

// survey asks the remote all questions, each within the timeout of a probe.
func (l *Connection) survey(ctx context.Context, q *preflight.Questions, before *preflight.Result) *preflight.Result {
	found := &preflight.Result{Questions: q, Served: map[schema.GroupVersionKind]bool{}}
	var (
		mu     sync.Mutex // protects found.served
		asking errgroup.Group
	)
	asking.SetLimit(surveyedAtOnce)
	for gv, kinds := range byGroupVersion(q.Kinds) {
		asking.Go(func() error {
			served, err := l.kindsOf(ctx, gv)
			if err != nil {
				return nil // It is not known, then.
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
		asking.Go(func() error {
			lacking, err := l.reviewer().Missing(ctx, q)
			if err != nil {
				_, found.Unknown = kubeconfig.Classify(err)
			}
			found.Missing = lacking
			return nil
		})
	}
	_ = asking.Wait() // no question fails the others
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

// kindsOf returns the kinds that the remote serves of one version of a group. It asks for that alone, which is a
// small answer of every version of Kubernetes.
func (l *Connection) kindsOf(ctx context.Context, gv schema.GroupVersion) (map[string]bool, error) {
	path := "apis/" + gv.Group + "/" + gv.Version
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	var list struct{ Resources []struct{ Name, Kind string } }
	err := l.getJSON(ctx, path, &list)
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
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
