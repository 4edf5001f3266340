// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const (
	margin = time.Second // margin is how long a Lease stays unchanged in addition to the duration, for clocks of different rates.
	// graceServed is from the end of a Lease to the mark if a live replica has the Cluster: 2 s to take the shard, 10 s to report.
	graceServed   = 12 * time.Second
	graceUnserved = 5 * time.Second
	// step is between the turns of two neighbours.
	step      = 2 * time.Second
	alwaysFew = 5
	tooLarge  = 5 // tooLarge a part of all Clusters to be marked at once, as a divisor.
)

func isTooMany(n, all int) bool { return n > alwaysFew && n*tooLarge > all }

type suspect struct {
	cluster *hubv1.Cluster
	runner  string
	holder  string    // the live replica that holds its shard; empty for none
	since   time.Time // when the Lease was over, and this replica could act
	rank    int       // of this replica among the neighbours; negative if it is none
}

// grace is when the first neighbour marks it.
func (s suspect) grace() time.Duration {
	if s.holder != "" {
		return graceServed
	}
	return graceUnserved
}

func (s suspect) message() string {
	if s.holder != "" {
		return fmt.Sprintf("The replica %s of the hub, which ran the app, has ended; the replica %s has taken the Cluster over, "+
			"and has not reported its state yet", s.runner, s.holder)
	}
	return fmt.Sprintf("The replica %s of the hub, which ran the app, has ended; the app does not run until another replica takes "+
		"the Cluster over and reports its state", s.runner)
}

type look struct {
	replica.Observation
	leaseOf func(name string) (shards.Lease, time.Time)
	now     time.Time
	began   time.Time // of the audit: what has happened before it counts as if it had happened then

	verdicts map[string]verdict
	ranks    map[int]int // of this replica, by shard
}

type verdict struct {
	isOver bool
	since  time.Time
}

func (l *look) suspects(all []hubv1.Cluster) []suspect {
	var found []suspect
	for i := range all {
		one := &all[i]
		runner := one.Status.Runner.Name
		if !isAudited(one) || runner == l.Me {
			continue
		}
		v := l.verdictOn(runner)
		if !v.isOver {
			continue
		}
		since := v.since
		if since.Before(l.began) {
			since = l.began // A replica that has just got its Lease takes the shards first.
		}
		shard := shards.Of(one.UID, len(l.Holders))
		found = append(found, suspect{cluster: one, runner: runner, holder: l.Holders[shard], since: since, rank: l.rankFor(shard)})
	}
	return found
}

// isAudited: a runner has reported the Cluster, and its status would be wrong without one.
func isAudited(c *hubv1.Cluster) bool {
	return c.Status.Runner.Name != "" && c.DeletionTimestamp.IsZero() && c.Spec.State != hubv1.ClusterPaused && !isMarked(c)
}

func isMarked(c *hubv1.Cluster) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionUnknown && ready.Reason == hubv1.ReasonRunnerLost
}

func (l *look) verdictOn(name string) verdict {
	if v, known := l.verdicts[name]; known {
		return v
	}
	lease, unchanged := l.leaseOf(name)
	v := verdict{isOver: true, since: unchanged} // It has no incarnation: it was released or overwritten.
	if lease.Version == "" || lease.Incarnation != "" {
		v.since = unchanged.Add(l.Duration)
		v.isOver = !l.now.Before(v.since.Add(margin))
	}
	if l.verdicts == nil {
		l.verdicts = map[string]verdict{}
	}
	l.verdicts[name] = v
	return v
}

// rankFor leaves out the holder, which reports the Clusters of the shard itself.
func (l *look) rankFor(shard int) int {
	if rank, known := l.ranks[shard]; known {
		return rank
	}
	others := slices.DeleteFunc(slices.Clone(l.Live), func(name string) bool { return name == l.Holders[shard] })
	rank := slices.Index(shards.Neighbours(shard, others), l.Me)
	if l.ranks == nil {
		l.ranks = map[int]int{}
	}
	l.ranks[shard] = rank
	return rank
}

// unserved is how many suspects no live replica has, although there was time. All neighbours count the same.
func (l *look) unserved(found []suspect) (n int) {
	for _, s := range found {
		if s.holder == "" && !l.now.Before(s.since.Add(s.grace())) {
			n++
		}
	}
	return n
}

func (l *look) due(found []suspect) []suspect {
	return slices.DeleteFunc(slices.Clone(found), func(s suspect) bool {
		return s.rank < 0 || l.now.Before(s.since.Add(s.grace()+time.Duration(s.rank)*step))
	})
}
