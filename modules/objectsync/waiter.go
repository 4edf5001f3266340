// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

const kindAgain = 10 * time.Second

// crdTimeout is how long a definition, or a cluster, may take until the log says so.
const crdTimeout = 30 * time.Second

const refusals = 5

// firstTry bounds what the start of an app waits for a waiter.
const firstTry = 10 * time.Second

// waiter adds the controller of a rule when both clusters serve its kind. Until then the other rules work.
//
// Its first try belongs to the start of the app, so that a Ready app has the controllers of all served kinds. In a
// handover it may create the definition while the app before still works. So it has a Warmup and a Name like a
// controller.
type waiter struct {
	Name  string
	pair  *syncer.Pair
	rule  *ruleInApp
	told  bool // what the rule waits for is logged
	tries int  // refused in a row
	first sync.Once
	added bool // set by the first try, and by Start after it
}

func (w *waiter) Warmup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	w.tryFirst(ctx)
	return nil
}

func (w *waiter) tryFirst(ctx context.Context) { w.first.Do(func() { w.added = w.tried(ctx) }) }

func (w *waiter) Start(ctx context.Context) error {
	ticker := time.NewTicker(kindAgain)
	defer ticker.Stop()
	for w.tryFirst(ctx); !w.added; w.added = w.tried(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	<-ctx.Done()
	return nil
}

func (w *waiter) tried(ctx context.Context) bool {
	err := w.try(ctx)
	switch {
	case err == nil, ctx.Err() != nil:
		return err == nil
	case !w.told:
		w.rule.params.Logger.Error(err, "Failed to set up a rule; it is tried again", "rule", w.rule.Name)
		w.told = true
	}
	switch class := apierrors.ReasonForError(err); class {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests:
		w.tries = 0
	default:
		w.refused(ctx, class)
	}
	return false
}

// refused records an event about the Cluster after some refusals.
func (w *waiter) refused(ctx context.Context, class metav1.StatusReason) {
	r := w.rule
	if w.tries++; w.tries != refusals || !r.BringCRD {
		return
	}
	err := r.params.HubClient.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: r.cluster + ".sync-" + r.Name + "-" + strings.ToLower(string(class))},
		EventTime:  metav1.NowMicro(), Type: corev1.EventTypeWarning, Reason: syncer.ReasonRejected, Action: "Sync",
		Note: fmt.Sprintf("Rule %s failed again and again to bring the definition of %s to the Cluster %s: %s. The log of the hub has the error.",
			r.Name, r.Kind.Kind, r.cluster, class),
		ReportingController: hubv1.GroupName + "/" + Name, ReportingInstance: r.Name,
		Regarding: corev1.ObjectReference{APIVersion: hubv1.GroupVersion.String(), Kind: "Cluster", Name: r.cluster},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) { // That of an earlier start.
		r.params.Logger.Error(err, "Failed to record an event about a Cluster", "rule", r.Name)
	}
}

func (w *waiter) try(ctx context.Context) error {
	r := w.rule
	if r.BringCRD && r.Mode == rules.Enforce {
		ensuring, cancel := context.WithTimeout(ctx, crdTimeout)
		defer cancel()
		if err := syncer.EnsureCRD(ensuring, w.pair, r.GVK()); err != nil {
			return err
		}
	}
	for _, c := range []client.Client{r.params.HubClient, r.params.Client} {
		mapping, err := c.RESTMapper().RESTMapping(r.GVK().GroupKind(), r.GVK().Version)
		if err != nil {
			return fmt.Errorf("find the kind: %w", err)
		}
		if isNamespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; isNamespaced != r.IsNamespaced() {
			return fmt.Errorf("%w: a kind with namespaces has namespaces in the rule, and no other kind", syncer.ErrInvalidConfig)
		}
	}
	return r.register(w.pair)
}
