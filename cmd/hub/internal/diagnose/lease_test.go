// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/runners"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

const patience = 2 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noApps is the runner of shards without Clusters.
type noApps struct{}

func (noApps) Warm(context.Context, int, shards.Origin) error   { return nil }
func (noApps) Start(context.Context, int, int64, shards.Origin) {}
func (noApps) Drain(context.Context, int) error                 { return nil }

// start runs a replica, and returns how to end it.
func start(t *testing.T, cluster *fleet.Cluster, namespace string) (end func()) {
	t.Helper()
	r, err := replica.New(replica.Options{
		Config: cluster.Config(), Namespace: namespace, Name: "a", Count: 4, Runner: noApps{}, LeaveTimeout: patience,
		Timing: shards.Timing{Duration: 20 * time.Second, Deadline: 15 * time.Second, Retry: 300 * time.Millisecond},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the replica ends with %v", err)
		}
	})
	t.Cleanup(end)
	return end
}

// In Sharded mode the lease of the installation has no end, so the replicas decide.
func TestInstallation_LeaseOfSharded(t *testing.T) {
	t.Parallel()
	cluster := fleettest.Cluster(t, "hub")
	fleettest.InstallCRDs(t, cluster.Config())
	c, err := access.New("the hub", cluster.Config())
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "diagnose-"}}
	must(t, c.Create(t.Context(), namespace))
	i := Installation{Hub: c, Namespace: namespace.Name, Lease: "mode"}
	holder, now, decade := i.Namespace+"/clusterfx-sharding", metav1.NowMicro(), int32(10*365*24*60*60)
	must(t, c.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Lease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &decade},
	}))
	finds := func(level Level, text string) string {
		var got Report
		i.lease(t.Context(), &got, nil)
		if len(got) != 1 || got[0].Level != level || !strings.Contains(got[0].Text, text) || (level == OK) != (got[0].Advice == "") {
			return "got " + describe(got) + ", want " + string(level) + " with: " + text
		}
		return ""
	}

	if problem := finds(Failure, "none of them has created the shards yet"); problem != "" {
		t.Error("without a replica: " + problem)
	}
	end := start(t, cluster, i.Namespace)
	problem := "not checked"
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); problem != "" && time.Now().Before(deadline); <-tick.C {
		problem = finds(OK, "1 replica is live, and all 4 shards have a live holder")
	}
	if problem != "" {
		t.Error("with a replica: " + problem)
	}
	end()
	if problem := finds(Failure, "no replica is live, and 4 of 4 shards have no live holder"); problem != "" {
		t.Error("after the end of the replica: " + problem)
	}
}

func describe(r Report) string {
	var texts []string
	for _, f := range r {
		texts = append(texts, string(f.Level)+" "+f.Text+" ("+f.Advice+")")
	}
	return strings.Join(texts, "; ")
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	list := func(unheld int, states ...runners.State) *runners.List {
		l := &runners.List{Shards: 8}
		for shard := range unheld {
			l.Unheld = append(l.Unheld, shard)
		}
		for _, s := range states {
			l.Runners = append(l.Runners, runners.Runner{State: s})
		}
		return l
	}
	ignored := list(0, runners.Live)
	ignored.Ignored = true
	for name, c := range map[string]struct {
		list *runners.List
		want []Level
		text string
	}{
		"all live":                   {list(0, runners.Live, runners.Live, runners.Over), []Level{OK}, "2 replicas are live, and all 8"},
		"a replica is drained":       {list(0, runners.Live, runners.Drained, runners.Draining), []Level{OK}, "1 replica is live"},
		"shards without a holder":    {list(3, runners.Live, runners.Over), []Level{Warning}, "1 replica is live, and 3 of 8 shards have no live holder"},
		"no shard has a holder":      {list(8, runners.Live), []Level{Failure}, "1 replica is live, and 8 of 8 shards"},
		"none is live":               {list(8, runners.Over), []Level{Failure}, "no replica is live, and 8 of 8 shards"},
		"the last replica ends":      {list(0, runners.Leaving, runners.Over), []Level{Failure}, "no replica is live: the replicas that hold the shards are about to end"},
		"no replica is left":         {list(8), []Level{Failure}, "no replica is live"},
		"the drain of all: no drain": {ignored, []Level{OK, Warning}, "all live replicas are drained"},
	} {
		var got Report
		replicas(&got, c.list)
		var levels []Level
		for _, f := range got {
			levels = append(levels, f.Level)
			if (f.Level == OK) != (f.Advice == "") {
				t.Errorf("%s: the advice on %q is %q", name, f.Text, f.Advice)
			}
		}
		if !slices.Equal(levels, c.want) || !strings.Contains(describe(got), c.text) {
			t.Errorf("%s: got %s, want %v with: %s", name, describe(got), c.want, c.text)
		}
	}
}
