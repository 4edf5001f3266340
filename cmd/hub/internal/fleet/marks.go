// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// MarkManager is the field manager of the marks. An apply of one condition by the hub's own would remove the rest of its report. It
// is never released, since an apply without fields would remove the condition.
const MarkManager = "clusterfx-marks"

const (
	marksEvery  = time.Second
	markTimeout = 10 * time.Second // markTimeout of the marks of one pass.
	// markGrace is since when no replica has had the shard: a shard that can be taken is taken within a second or two.
	markGrace = 5 * time.Second
	alwaysFew = 5
	tooLarge  = 5 // tooLarge a part of all Clusters to be marked in one pass, as a divisor.
)

// marks correct the status of Clusters whose runner has ended: a runner that is killed leaves its last report behind, also if no
// other takes the Cluster over. The assigner marks, while the record of the shard has no holder, or one that has ended. The mark is
// the condition Ready, Unknown with the reason RunnerLost, written if the Cluster is unchanged since before the record was looked
// at. A report takes it back.
type marks struct {
	observe  func() (replica.Observation, bool)
	count    int           // of shards with Clusters
	clusters client.Reader // the cache
	client   client.Client // writes while this replica is active
	events   events.EventRecorder
	log      logr.Logger
	written  prometheus.Counter

	free map[int]time.Time // since when no replica is known to have a shard
}

// Start has one pass after the other until ctx ends.
func (m *marks) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.pass(ctx); err != nil && ctx.Err() == nil {
			m.log.Error(err, "Failed to mark Clusters whose runner has ended; it is tried again")
		}
		replica.Pause(ctx, marksEvery)
	}
	return nil
}

func (m *marks) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if o, ok := m.observe(); !ok || !o.Assigns || !m.note(o, time.Now()) {
		return nil
	}
	var all hubv1.ClusterList
	if err := m.clusters.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the Clusters: %w", err)
	}
	o, ok := m.observe() // After the versions of the Clusters: a replica that has taken a shard since then changes them.
	if !ok || !o.Assigns {
		return nil
	}
	m.note(o, time.Now())
	var errs []error
	for _, one := range m.due(all.Items, time.Now()) {
		if err := m.mark(ctx, one); err != nil {
			errs = append(errs, fmt.Errorf("mark %s: %w", one.Name, err))
		}
	}
	return errors.Join(errs...)
}

// note records which shards no replica has, and reports whether there are some.
func (m *marks) note(o replica.Observation, now time.Time) bool {
	before := m.free
	m.free = map[int]time.Time{}
	for shard, isFree := range o.Free {
		if !isFree || shard == shards.Once {
			continue
		}
		if m.free[shard] = now; !before[shard].IsZero() {
			m.free[shard] = before[shard]
		}
	}
	return len(m.free) > 0
}

// due are the Clusters to mark now, never more than a fifth of all, or five.
func (m *marks) due(all []hubv1.Cluster, now time.Time) (due []*hubv1.Cluster) {
	most := max(alwaysFew, len(all)/tooLarge)
	for i := range all {
		one := &all[i]
		since, isFree := m.free[shards.Of(one.UID, m.count)]
		if len(due) < most && isFree && now.Sub(since) >= markGrace && isReported(one) {
			due = append(due, one)
		}
	}
	return due
}

// isReported: a runner has reported the Cluster, and its status would be wrong without one.
func isReported(c *hubv1.Cluster) bool {
	return c.Status.Runner.Name != "" && c.DeletionTimestamp.IsZero() && c.Spec.State != hubv1.ClusterPaused && !isMarked(c)
}

func isMarked(c *hubv1.Cluster) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionUnknown && ready.Reason == hubv1.ReasonRunnerLost
}

// mark leaves a Cluster that has changed since the cache has seen it.
func (m *marks) mark(ctx context.Context, c *hubv1.Cluster) error {
	message := fmt.Sprintf("The replica %s of the hub, which ran the app, has ended; the app does not run until another replica takes "+
		"the Cluster over and reports its state", c.Status.Runner.Name)
	ready := marked(c, message)
	wanted := hubac.Cluster(c.Name).WithResourceVersion(c.ResourceVersion).WithStatus(
		hubac.ClusterStatus().WithConditions(&metav1ac.ConditionApplyConfiguration{
			Type: &ready.Type, Status: &ready.Status, Reason: &ready.Reason, Message: &ready.Message,
			ObservedGeneration: &ready.ObservedGeneration, LastTransitionTime: &ready.LastTransitionTime,
		}))
	err := m.client.Status().Apply(ctx, wanted, client.FieldOwner(MarkManager), client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	m.written.Inc()
	m.events.Eventf(c, nil, corev1.EventTypeWarning, hubv1.ReasonRunnerLost, "Mark", "%s", message)
	m.log.Info("Marked a Cluster whose runner has ended", "cluster", c.Name, "runner", c.Status.Runner.Name)
	return nil
}

// marked sets the time of the change to now, unless Ready was Unknown.
func marked(c *hubv1.Cluster, message string) *metav1.Condition {
	conditions := slices.Clone(c.Status.Conditions)
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: hubv1.ReasonRunnerLost, Message: message,
		ObservedGeneration: c.Generation,
	})
	return meta.FindStatusCondition(conditions, hubv1.ConditionReady)
}
