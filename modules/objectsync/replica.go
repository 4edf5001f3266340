// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	lookEvery = time.Second
	// patience is how long a process says nothing of a new generation that its apps do not follow yet.
	patience = 3 * time.Second

	maxProblemBytes = 6 << 10 // of one replica, so that those of some fit into 32 KiB
	maxFieldManager = 128
)

// reporter writes what the apps of this replica say into the status of each rule. It has one worker.
type reporter struct {
	shared  *shared
	params  registry.HubPart
	list    func() []registry.Status // the remotes of this replica
	began   time.Time
	written map[string]time.Time // when a rule was reported; "" is the last look at the remotes
	seen    map[string]seen
}

// seen is when the reporter first had a generation of a rule.
type seen struct {
	generation int64
	at         time.Time
}

// SetUpReplica adds the reporter of this replica.
func SetUpReplica(p registry.HubPart, s *shared) error {
	r := &reporter{shared: s, params: p, list: p.Registry.List, began: time.Now(), written: map[string]time.Time{}, seen: map[string]seen{}}
	ofRemotes := func(registry.Event) []reconcile.Request { return []reconcile.Request{{}} }
	return r.controller(p.Manager).WatchesRawSource(registry.Source(p.Registry, ofRemotes)).Complete(r)
}

func (r *reporter) controller(m ctrl.Manager) *registry.ControllerBuilder[reconcile.Request] {
	return registry.ControllerManagedBy(m).Named("sync-reports").For(&hubv1.SyncRule{}).WatchesRawSource(r.shared.reports.Source())
}

// Reconcile reports a rule. Without a name something has changed in a remote.
func (r *reporter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	every := r.shared.periods.report
	if req.Name == "" {
		every = lookEvery
	}
	if wait := every - time.Since(r.written[req.Name]); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if req.Name == "" {
		r.written[""] = time.Now()
		return reconcile.Result{}, r.all(ctx)
	}
	r.shared.first.Do(func() { close(r.shared.exists) })
	done, err := r.report(ctx, req.Name)
	if err != nil {
		r.params.Logger.V(1).Info("Failed to report a rule", "rule", req.Name, "error", err.Error())
		r.written[req.Name] = time.Now() // also of what has failed
	}
	if !done {
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	}
	return reconcile.Result{}, nil
}

// all asks for all rules.
func (r *reporter) all(ctx context.Context) error {
	remotes := r.list()
	r.shared.leave(func(name registry.ClusterName) bool {
		return slices.ContainsFunc(remotes, func(one registry.Status) bool { return one.Name == name && runs(one) })
	})
	var all hubv1.SyncRuleList
	err := r.params.Client.List(ctx, &all, client.UnsafeDisableDeepCopy)
	for i := range all.Items {
		r.shared.touch(all.Items[i].Name)
	}
	return err
}

// report is done if the status says what the apps say.
func (r *reporter) report(ctx context.Context, name string) (done bool, err error) {
	var rule hubv1.SyncRule
	if err := r.params.Client.Get(ctx, client.ObjectKey{Name: name}, &rule); err != nil {
		if err = client.IgnoreNotFound(err); err == nil {
			delete(r.written, name)
			delete(r.seen, name)
			r.shared.rules.Forget(name)
		}
		return err == nil, err
	}
	if r.seen[name].generation != rule.Generation {
		r.seen[name] = seen{rule.Generation, time.Now()}
	}
	sum := summed{rule: &rule}
	i := slices.IndexFunc(rule.Status.Replicas, func(one hubv1.SyncReplica) bool { return one.Name == r.params.Options.Replica })
	if i >= 0 {
		sum.before = rule.Status.Replicas[i].Problems
	}
	wanted, isWhole := r.entryOf(&sum)
	switch {
	case i < 0 && wanted == nil, i >= 0 && wanted != nil && equality.Semantic.DeepEqual(rule.Status.Replicas[i], *wanted):
		return true, nil
	case !isWhole && (time.Since(r.began) < r.shared.periods.settling || time.Since(r.seen[name].at) < patience):
		return false, nil
	}
	status := map[string]any{}
	if wanted != nil {
		status["replicas"] = []*hubv1.SyncReplica{wanted}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": hubv1.GroupVersion.String(), "kind": "SyncRule", "metadata": map[string]any{"name": name, "uid": rule.UID},
		"status": status,
	})
	if err != nil {
		return false, err
	}
	r.written[name] = time.Now()
	owner := client.FieldOwner(("clusterfx-sync-" + r.params.Options.Replica)[:min(maxFieldManager, len("clusterfx-sync-")+len(r.params.Options.Replica))])
	err = r.params.Client.Status().Patch(ctx, &rule, client.RawPatch(types.ApplyPatchType, text), owner, client.ForceOwnership)
	return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
}

// entryOf returns nil if no remote of this replica is selected. isWhole says that none is waited for.
func (r *reporter) entryOf(sum *summed) (entry *hubv1.SyncReplica, isWhole bool) {
	compiled, err := r.shared.rules.Compile(sum.rule)
	if err != nil {
		return nil, true
	}
	for _, one := range r.list() {
		if !runs(one) {
			continue
		}
		said, says := r.shared.said(sum.rule.Name, one.Name)
		if isSelected := compiled.SelectsCluster(one.Labels); says || isSelected {
			sum.add(one, said, isSelected)
		}
	}
	return sum.entry(r.params.Options.Replica), sum.waiting() == 0
}

func runs(remote registry.Status) bool {
	switch remote.State {
	case state.StateWarm, state.StateStopping, state.StateStopped:
		return false
	}
	return slices.ContainsFunc(remote.Modules, func(m state.ModuleStatus) bool { return m.Name == Name })
}

// summed is what apps say of a rule.
type summed struct {
	rule   *hubv1.SyncRule
	before []hubv1.SyncProblem // that the replica has reported

	clusters, ready, unreachable, ended, troubled, originals, copies int32
	unready                                                          []string
	problems                                                         []hubv1.SyncProblem
}

func (s *summed) waiting() int32 { return s.clusters - s.ready - s.ended - s.unreachable }

// add takes also what is left in a remote that the rule no longer selects.
func (s *summed) add(remote registry.Status, one report, isSelected bool) {
	if isSelected {
		s.clusters++
	}
	isCurrent, isEnding := one.Generation == s.rule.Generation, !s.rule.DeletionTimestamp.IsZero()
	switch {
	case !isSelected:
	case isEnding && isCurrent && one.Ended:
		s.ended++
	case !isEnding && isCurrent && one.Following:
		s.ready++
	default:
		if remote.Reachable.Status != metav1.ConditionTrue {
			s.unreachable++
		}
		s.unready = append(s.unready, string(remote.Name))
	}
	s.originals += one.Originals
	s.copies += one.Copies
	if len(one.Problems) > 0 {
		s.troubled++
	}
	for reason, object := range one.Problems {
		at := metav1.Now().Rfc3339Copy()
		i := slices.IndexFunc(s.before, func(p hubv1.SyncProblem) bool { return p.Cluster == string(remote.Name) && p.Reason == reason })
		if i >= 0 {
			at = s.before[i].Time
		}
		s.problems = append(s.problems, hubv1.SyncProblem{
			Cluster: string(remote.Name), Reason: reason, Object: object[:min(len(object), hubv1.MaxSyncObjectLength)], Time: at,
		})
	}
}

func (s *summed) entry(replica string) *hubv1.SyncReplica {
	if s.clusters == 0 && s.copies == 0 && s.troubled == 0 {
		return nil
	}
	slices.Sort(s.unready)
	return &hubv1.SyncReplica{
		Name: replica, ObservedGeneration: s.rule.Generation, Clusters: &s.clusters, Ready: &s.ready, Unreachable: &s.unreachable,
		Ended: &s.ended, Originals: &s.originals, Copies: &s.copies, ProblemCount: &s.troubled,
		Problems: someProblems(s.problems, maxProblemBytes), Unready: s.unready[:min(len(s.unready), hubv1.MaxSyncProblems)],
	}
}

// someProblems returns those that need somebody first.
func someProblems(all []hubv1.SyncProblem, bytes int) []hubv1.SyncProblem {
	slices.SortFunc(all, func(a, b hubv1.SyncProblem) int {
		return cmp.Or(urgency(a)-urgency(b), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Reason, b.Reason))
	})
	for i := range all {
		const rest = 96 // the names of the fields, and the time
		bytes -= len(all[i].Cluster) + len(all[i].Reason) + len(all[i].Object) + rest
		if bytes < 0 || i == hubv1.MaxSyncProblems {
			return all[:i]
		}
	}
	return all
}

func urgency(p hubv1.SyncProblem) int {
	switch p.Reason {
	case hubv1.SyncHeld:
		return 0
	case hubv1.SyncWaiting:
		return 2
	}
	return 1
}
