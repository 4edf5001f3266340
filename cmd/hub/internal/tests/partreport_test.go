// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

// clientAs returns a client of the hub's cluster for a user with some permissions.
func clientAs(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	user, err := fleettest.Cluster(t, "hub").MintCertificate(t.Context(), fleet.User{Name: name, Rules: rules})
	must(t, err)
	return fleettest.Client(t, user)
}

// writing is a Writer that runs until the test ends or end is called.
type writing struct {
	state   atomic.Pointer[string] // of its hub part
	open    atomic.Bool            // it may write
	leaving chan struct{}
	ended   chan struct{}
	end     func()
}

func write(t *testing.T, c client.Client, namespace, replica string) *writing {
	t.Helper()
	w := &writing{leaving: make(chan struct{}), ended: make(chan struct{})}
	w.become(state.ModuleWaiting)
	w.open.Store(true)
	writer := &partreport.Writer{
		Client: c, Namespace: namespace, Replica: replica, Log: logr.Discard(), Leaving: w.leaving,
		Parts: func() []state.HubPartStatus {
			return []state.HubPartStatus{{Module: "dns", State: *w.state.Load(), Reason: "Why"}}
		},
		Check: func() error {
			if w.open.Load() {
				return nil
			}
			return errors.New("the gate is closed")
		},
	}
	w.end = testkit.Background(t, func(ctx context.Context) error {
		defer close(w.ended)
		return writer.Start(ctx)
	})
	return w
}

func (w *writing) become(next string) { w.state.Store(&next) }

// The report is written at the start and after a change, with the permissions of Rules and the permission to create ConfigMaps, or
// of Rules alone if there is the ConfigMap. It is removed at the end. Without permissions the writer does not fail.
func TestWriter(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	create := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}
	for user, allowed := range map[string][]rbacv1.PolicyRule{
		"reports": slices.Concat(partreport.Rules(), []rbacv1.PolicyRule{create}), "patches": partreport.Rules(), "may-not-report": nil,
	} {
		namespace := fleettest.Namespace(t, admin, user+"-")
		if user == "patches" {
			must(t, admin.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: partreport.Name}, Data: map[string]string{"one": "no JSON"},
			}))
		}
		w := write(t, clientAs(t, user, allowed...), namespace, "one")
		if allowed != nil {
			expectParts(t, admin, namespace, map[string]string{"one": "Waiting (Why)"})
			w.become(state.ModuleRunning)
			expectParts(t, admin, namespace, map[string]string{"one": "Running"})
		}
		w.end()
		expectParts(t, admin, namespace, map[string]string{})
	}
}

// Each replica has a report of its own, and none writes when another one does, nor without a change, nor while it may not. A
// replica that leaves removes its report, and Forget removes that of one that was killed.
func TestWriter_Replicas(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	namespace := fleettest.Namespace(t, admin, "replicas-")
	must(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: partreport.Name}, Data: map[string]string{"killed": "[]"},
	}))
	a, b := write(t, admin, namespace, "a"), write(t, admin, namespace, "b")
	expectParts(t, admin, namespace, map[string]string{"a": "Waiting (Why)", "b": "Waiting (Why)", "killed": ""})
	a.become(state.ModuleRunning)
	expectParts(t, admin, namespace, map[string]string{"a": "Running", "b": "Waiting (Why)", "killed": ""})

	settled := version(t, admin, namespace)
	a.open.Store(false)
	a.become(state.ModuleStandby)
	b.become(state.ModuleFailed)
	expectParts(t, admin, namespace, map[string]string{"a": "Running", "b": "Failed (Why)", "killed": ""})
	if n := changes(t, admin, namespace, settled); n != 1 {
		t.Errorf("a change in one replica is followed by %d writes, want 1", n)
	}

	a.open.Store(true)
	expectParts(t, admin, namespace, map[string]string{"a": "Standby (Why)", "b": "Failed (Why)", "killed": ""})
	close(a.leaving)
	<-a.ended
	expectParts(t, admin, namespace, map[string]string{"b": "Failed (Why)", "killed": ""})
	must(t, partreport.Forget(t.Context(), admin, namespace, "killed"))
	expectParts(t, admin, namespace, map[string]string{"b": "Failed (Why)"})
	must(t, partreport.Forget(t.Context(), admin, namespace, "never-was"))
}

// Replicas that begin at the same time, without a ConfigMap, all report.
func TestWriter_ReplicasBegin(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	namespace := fleettest.Namespace(t, admin, "replicas-begin-")
	want := map[string]string{}
	for i := range 8 {
		name := fmt.Sprintf("r%d", i)
		write(t, admin, namespace, name)
		want[name] = "Waiting (Why)"
	}
	expectParts(t, admin, namespace, want)
}

// expectParts waits until the states of the hub part in replicas are these; "" is none.
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
				got[report.Replica] = part.String()
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

// refusing is a client that refuses the first patches.
type refusing struct {
	client.Client
	refusals int
	start    time.Time
	patches  []time.Duration // since start
}

// Patch returns an error, or nothing.
func (r *refusing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	r.patches = append(r.patches, time.Since(r.start))
	if len(r.patches) <= r.refusals {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), partreport.Name, nil)
	}
	return nil
}

// The writer retries by itself until a write succeeds, logs only the first failure, writes nothing more without a change, and
// removes its report at the end.
func TestWriter_Retries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, lines := &refusing{refusals: 2, start: time.Now()}, 0
		w := &partreport.Writer{
			Client: c, Parts: func() []state.HubPartStatus { return nil }, Check: func() error { return nil },
			Log: funcr.New(func(string, string) { lines++ }, funcr.Options{}),
		}
		const retry = 30 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := w.Start(ctx); err != nil {
			t.Errorf("the writer returns %v, which ends the hub", err)
		}
		if want := []time.Duration{0, retry, 2 * retry, time.Hour}; !slices.Equal(c.patches, want) || lines != 1 {
			t.Errorf("the writer writes after %v and logs %d lines, want %v and 1", c.patches, lines, want)
		}
	})
}

// The state of a hub part names the replicas if it differs, and leaves out those in which the hub part stands by.
func TestHubPart(t *testing.T) {
	t.Parallel()
	plan := func(s string) partreport.Part { return partreport.Part{Module: "plan", State: s} }
	runs := partreport.Part{Module: "act", State: state.ModuleRunning}
	all := []partreport.Report{
		{Replica: "a", Parts: []partreport.Part{plan(state.ModuleStandby), runs}},
		{Replica: "b", Parts: []partreport.Part{plan(state.ModuleRunning), {Module: "act", State: state.ModuleFailed, Reason: "Why", Message: "no database"}}},
		{Replica: "c", Parts: []partreport.Part{plan(state.ModuleStandby), runs}},
	}
	for module, want := range map[string][2]string{
		"plan": {"Running"}, "act": {"Running in a and c, Failed (Why) in b", "no database"}, "none": {},
	} {
		if got, message := inspect.HubPart(module, all); got != want[0] || message != want[1] {
			t.Errorf("the hub part of %s is %q with %q, want %q", module, got, message, want)
		}
	}
	if got, _ := inspect.HubPart("plan", all[:1]); got != state.ModuleStandby {
		t.Errorf("a hub part that stands by everywhere is %q", got)
	}
}
