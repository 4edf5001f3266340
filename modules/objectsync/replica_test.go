// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func remotesOf(n int, reachable metav1.ConditionStatus) []registry.Status {
	all := make([]registry.Status, n)
	for i := range all {
		all[i] = registry.Status{
			Name: registry.ClusterName(fmt.Sprintf("edge-%03d", i)), State: state.StateReady, Modules: []state.ModuleStatus{{Name: Name}},
			Reachable: state.Condition{Status: reachable},
		}
	}
	return all
}

func ruleOfConfigs() *hubv1.SyncRule {
	return &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "configs"}, Spec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"default"}}, To: hubv1.SyncTarget{Naming: hubv1.SyncMirror},
	}}
}

// Hundreds of remotes that fail together, and again, cost one write in a period, of ten seconds.
func TestReporter_OneWrite(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "hub")
	fleettest.InstallCRDs(t, cluster.Config())
	c := fleettest.Client(t, cluster, hubv1.AddToScheme)
	rule := ruleOfConfigs()
	testkit.Must(t, c.Create(t.Context(), rule))
	direct, err := client.NewWithWatch(cluster.Config(), client.Options{Scheme: c.Scheme()})
	testkit.Must(t, err)
	m, err := ctrl.NewManager(cluster.Config(), ctrl.Options{Logger: logr.Discard(), Scheme: c.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	testkit.Must(t, err)
	r := &reporter{
		shared: newShared(periods{report: 3 * time.Second}), list: func() []registry.Status { return remotesOf(500, metav1.ConditionTrue) },
		began: time.Now(), written: map[string]time.Time{}, seen: map[string]seen{},
	}
	r.params.Client, r.params.Options.Replica = c, "hub-0"
	testkit.Must(t, r.controller(m).Complete(r))
	fail := func(reason hubv1.SyncProblemReason) {
		for _, one := range r.list() {
			e := newEngine(Params{Remote: registry.Remote{Name: one.Name}, Shared: r.shared})
			e.entries[rule.Name] = &entry{idle: &report{
				Generation: 1, Following: true, Problems: problems{reason: "default/" + strings.Repeat("n", 250)},
			}}
			r.shared.join(e)
		}
		r.shared.touch(rule.Name)
	}
	fail(hubv1.SyncConflict)
	testkit.Background(t, m.Start)

	changes, err := direct.Watch(t.Context(), &hubv1.SyncRuleList{})
	testkit.Must(t, err)
	defer changes.Stop()
	var writes []time.Time
	for change := range changes.ResultChan() {
		now, ok := change.Object.(*hubv1.SyncRule)
		if !ok || change.Type != watch.Modified {
			continue
		}
		writes = append(writes, time.Now())
		testkit.Equal(t, *now.Status.Replicas[0].ProblemCount, 500, "Clusters with problems")
		if size := sizeOfStatus(t, now.Status); size > 16<<10 {
			t.Errorf("the status has %d bytes", size)
		}
		if now.Status.Replicas[0].Problems[0].Reason == hubv1.SyncRejected { // the last state
			break
		}
		if len(writes) == 1 {
			for range 5 {
				fail(hubv1.SyncContended)
				fail(hubv1.SyncRejected)
			}
		}
	}
	for i := range writes[1:] {
		if apart := writes[i+1].Sub(writes[i]); apart < r.shared.periods.report-time.Second {
			t.Errorf("two writes are %s apart", apart)
		}
	}
}

func sizeOfStatus(t *testing.T, status hubv1.SyncRuleStatus) int {
	t.Helper()
	text, err := json.Marshal(status)
	testkit.Must(t, err)
	return len(text)
}

// The status of a rule that fails in all of 1 500 remotes with the longest names, told by three replicas, has at most 32 KiB.
func TestStanding_Size(t *testing.T) {
	t.Parallel()
	s := standing{rule: ruleOfConfigs(), replicas: nil}
	for i := range 3 {
		sum := summed{rule: s.rule}
		for _, one := range remotesOf(500, metav1.ConditionTrue) {
			one.Name = registry.ClusterName(strings.Repeat("a", 59) + string(one.Name[5:]))
			sum.add(one, report{Problems: problems{
				hubv1.SyncHeld: strings.Repeat("n", 400), hubv1.SyncFieldNotDeclared: strings.Repeat("n", 400),
			}}, true)
		}
		s.replicas = append(s.replicas, *sum.entry(strings.Repeat(fmt.Sprint(i), 253)))
	}
	s.sum()
	s.rule.Status.Replicas = s.replicas
	s.status()
	if size := sizeOfStatus(t, s.rule.Status); size > 32<<10 {
		t.Errorf("the status has %d bytes", size)
	}
	testkit.Equal(t, s.rule.Status.Problems[0].Reason, hubv1.SyncHeld, "what needs somebody comes first")
}

func TestStanding(t *testing.T) {
	t.Parallel()
	clusters := func(reachable ...metav1.ConditionStatus) []*hubv1.Cluster {
		var all []*hubv1.Cluster
		for i, status := range reachable {
			c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
			c.Status.Conditions = []metav1.Condition{{Type: hubv1.ConditionReachable, Status: status}}
			all = append(all, c)
		}
		return all
	}
	entry := func(generation int64, clusters, ready, unreachable, ended int32, unready ...string) hubv1.SyncReplica {
		return hubv1.SyncReplica{
			ObservedGeneration: generation, Clusters: &clusters, Ready: &ready, Unreachable: &unreachable, Ended: &ended, Unready: unready,
		}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, c := range map[string]struct {
		selected []*hubv1.Cluster
		replicas []hubv1.SyncReplica
		waiting  int32
		complete string
		unended  string
	}{
		"no Cluster":                          {nil, nil, 0, "True Following", ""},
		"nobody has said anything":            {clusters(yes, yes), nil, 2, "False Incomplete", "ab"},
		"all follow":                          {clusters(yes, yes), []hubv1.SyncReplica{entry(2, 2, 2, 0, 0)}, 0, "True Following", ""},
		"by two replicas":                     {clusters(yes, yes), []hubv1.SyncReplica{entry(2, 1, 1, 0, 0), entry(2, 1, 0, 0, 0, "b")}, 1, "False Incomplete", ""},
		"one is away":                         {clusters(yes, no), []hubv1.SyncReplica{entry(2, 2, 1, 1, 0, "b")}, 0, "False Unreachable", ""},
		"an entry of the generation before":   {clusters(yes), []hubv1.SyncReplica{entry(1, 1, 1, 0, 0)}, 1, "False Incomplete", "a"},
		"a replica does not run all yet":      {clusters(yes, yes), []hubv1.SyncReplica{entry(2, 1, 1, 0, 0)}, 1, "False Incomplete", "ab"},
		"ended but where it is away":          {clusters(yes, no), []hubv1.SyncReplica{entry(2, 2, 0, 1, 1, "b")}, 0, "", "b"},
		"ended, and one is with no replica":   {clusters(yes, no), []hubv1.SyncReplica{entry(2, 1, 0, 0, 1)}, 0, "", "ab"},
		"ended, and there are too many names": {clusters(no, no), []hubv1.SyncReplica{entry(2, 2, 0, 2, 0, "b")}, 0, "", "ab"},
	} {
		s := standing{rule: ruleOfConfigs(), selected: c.selected, replicas: c.replicas}
		s.rule.Generation = 2
		s.sum()
		testkit.Equal(t, s.waiting(), c.waiting, name, "waiting")
		if c.complete != "" {
			got := s.complete(int32(len(c.selected)))
			testkit.Equal(t, string(got.Status)+" "+got.Reason, c.complete, name)
		}
		if c.unended != "" {
			names := ""
			for _, one := range s.unended() {
				names += one.Name
			}
			testkit.Equal(t, names, c.unended, name, "unended")
		}
	}
}
