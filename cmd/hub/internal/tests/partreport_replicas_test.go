// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

// writing is a Writer of a replica that runs until the test ends.
type writing struct {
	state   atomic.Pointer[string] // of its hub part
	wake    chan struct{}
	leaving chan struct{}
	ended   chan struct{}
}

// share starts the Writer of a replica that shares the Clusters.
func share(t *testing.T, c client.Client, namespace, replica string) *writing {
	t.Helper()
	w := &writing{wake: make(chan struct{}, 1), leaving: make(chan struct{}), ended: make(chan struct{})}
	first := state.ModuleWaiting
	w.state.Store(&first)
	writer := partreport.NewWriter(partreport.Options{
		Client: c, Namespace: namespace, Replica: replica, Log: logr.Discard(), Leaving: w.leaving,
		Parts: func() []state.HubPartStatus {
			return []state.HubPartStatus{{Module: "dns", State: *w.state.Load()}}
		},
	}, w.wake)
	testkit.Background(t, func(ctx context.Context) error {
		defer close(w.ended)
		return writer.Start(ctx)
	})
	return w
}

func (w *writing) become(next string) {
	w.state.Store(&next)
	w.wake <- struct{}{}
}

// Each of two replicas that share the Clusters has a report of its own, with the permissions of Rules and ReplicaRules and the
// permission to create ConfigMaps. Neither writes when the other one does. A replica that leaves removes its report, and Forget
// removes that of another. The report of a hub that had all Clusters is removed, and that of a replica that was killed long ago is
// ignored while another one is recent.
func TestWriter_Replicas(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	namespace := fleettest.Namespace(t, admin, "replicas-")
	before := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: partreport.Name},
		Data:       map[string]string{"hub-parts.json": `{"replica":"before","written":"2999-01-01T00:00:00Z"}`, "hub-parts.killed.json": `{"replica":"killed","written":"2000-01-01T00:00:00Z"}`},
	}
	must(t, admin.Create(t.Context(), before))
	create := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}
	c := clientAs(t, "shares", slices.Concat(partreport.Rules(), partreport.ReplicaRules(), []rbacv1.PolicyRule{create})...)
	a, b := share(t, c, namespace, "a"), share(t, c, namespace, "b")
	expectParts(t, admin, namespace, map[string]string{"a": state.ModuleWaiting, "b": state.ModuleWaiting})
	a.become(state.ModuleRunning)
	expectParts(t, admin, namespace, map[string]string{"a": state.ModuleRunning, "b": state.ModuleWaiting})

	settled := version(t, admin, namespace)
	b.become(state.ModuleFailed)
	expectParts(t, admin, namespace, map[string]string{"a": state.ModuleRunning, "b": state.ModuleFailed})
	if n := changes(t, admin, namespace, settled); n != 1 {
		t.Errorf("a change in one replica is followed by %d writes, want 1", n)
	}

	close(a.leaving)
	<-a.ended
	expectParts(t, admin, namespace, map[string]string{"b": state.ModuleFailed})
	must(t, partreport.Forget(t.Context(), c, namespace, "b"))
	expectParts(t, admin, namespace, map[string]string{"killed": ""})
	must(t, partreport.Forget(t.Context(), c, namespace, "never-was"))
}

// Two replicas that begin at the same time, without a ConfigMap, both report.
func TestWriter_ReplicasBegin(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	namespace := fleettest.Namespace(t, admin, "replicas-begin-")
	want := map[string]string{}
	for i := range 8 {
		name := fmt.Sprintf("r%d", i)
		share(t, admin, namespace, name)
		want[name] = state.ModuleWaiting
	}
	expectParts(t, admin, namespace, want)
}

// expectParts waits until the states of the hub part in replicas are these.
func expectParts(t *testing.T, c client.Client, namespace string, want map[string]string) {
	t.Helper()
	eventually(t, func() error {
		reports, err := partreport.Read(t.Context(), c, namespace)
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, report := range reports {
			got[report.Replica] = ""
			if part := report.Of("dns"); part != nil {
				got[report.Replica] = part.State
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func version(t *testing.T, c client.Client, namespace string) string {
	t.Helper()
	var found corev1.ConfigMap
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: partreport.Name}, &found))
	return found.ResourceVersion
}

// changes returns how often the ConfigMap has changed after a version, for which it must have changed.
func changes(t *testing.T, c client.Client, namespace, since string) int {
	t.Helper()
	last := version(t, c, namespace)
	watching := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	var all corev1.ConfigMapList
	all.ResourceVersion = since
	events, err := watching.Watch(t.Context(), &all, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	must(t, err)
	defer events.Stop()
	n := 0
	for e := range events.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || m.Name != partreport.Name {
			continue
		}
		if n++; m.ResourceVersion == last {
			return n
		}
	}
	t.Fatal("the watch has ended")
	return n
}

// The reports of replicas that have ended are ignored while another one is recent. A summary names the replicas if their states
// differ, and leaves out those in which the hub part stands by.
func TestReports(t *testing.T) {
	t.Parallel()
	report := func(replica string, parts ...partreport.Part) partreport.Report {
		return partreport.Report{Written: metav1.Now(), Replica: replica, Parts: parts}
	}
	all := partreport.Reports{
		report("a", partreport.Part{Module: "plan", State: state.ModuleStandby}, partreport.Part{Module: "act", State: state.ModuleRunning}),
		report("b", partreport.Part{Module: "plan", State: state.ModuleRunning}, partreport.Part{Module: "act", State: state.ModuleFailed, Reason: "Why"}),
		report("c", partreport.Part{Module: "plan", State: state.ModuleStandby}, partreport.Part{Module: "act", State: state.ModuleRunning}),
	}
	for module, want := range map[string]string{
		"plan": "Running", "act": "Running in a and c, Failed (Why) in b", "none": "",
	} {
		if got := all.Summary(module); got != want {
			t.Errorf("the summary of %s is %q, want %q", module, got, want)
		}
	}
	if got := all[:1].Summary("plan"); got != state.ModuleStandby {
		t.Errorf("a hub part that stands by everywhere is %q", got)
	}
	if all.Old() || !(partreport.Reports{}).Old() || all.Latest() == nil || (partreport.Reports{}).Latest() != nil {
		t.Error("recent reports are old, or no reports are recent")
	}
}
