// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/process"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/examples/podcount/podcount"
	"github.com/clusterfx/clusterfx/examples/quota/quota"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/modules/objectsync"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/modules/tenants"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
)

// hours is a rule of sync, with the resource of its kind.
func hours() *hubv1.SyncRule {
	return &hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "hours"}, Spec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"default"}}, Objects: hubv1.SyncObjects{Names: []string{"hours"}},
		To: hubv1.SyncTarget{Naming: hubv1.SyncMirror},
	}}
}

// stock are modules of each kind: reports to the hub, objects in remotes, rules of sync and entities.
func stock() []registry.Module {
	return []registry.Module{podcount.Module, quota.Module, inventory.Module, objectsync.Module, objectsync.RulesModule, natshub.Module, tenants.Module}
}

// running is a hub at rest that runs them, with the options of process.Run.
type running struct {
	*audited
	hub     process.Options
	metrics *prometheus.Registry
}

const runningAgent = "clusterfx/running" // of all its requests

const onRequest = "modules:\n- {name: sync, clusters: {}}\n- {name: tenants, clusters: {}}\n"

func newRunning(t *testing.T, names ...string) *running {
	t.Helper()
	server := nats.Start(t)
	_, js := nats.Connect(t, server.URL())
	kv := nats.Bucket(t, js, tenants.Bucket)
	nats.Bucket(t, js, "tenants-status")
	must(t, testkit.Err(kv.Put(t.Context(), "acme", []byte(`{"clusters": {}, "admins": ["jane@example.com"], "quota": {"cpu": "20"}}`))))
	r := &running{audited: newAudited(t, names...), metrics: prometheus.NewRegistry()}
	r.hub = options(r.audited.hub.Config(), stock()...).Hub
	r.hub.NATS.URL = server.URL()
	everywhere := &metav1.LabelSelector{}
	r.hub.Registry.ModuleConfigs = []moduleconfig.Config{{Name: "sync", Clusters: everywhere}, {Name: "tenants", Clusters: everywhere}}
	o := r.hub
	o.Config = rest.CopyConfig(o.Config)
	o.Config.UserAgent = runningAgent
	o.Alone, o.Registry.Metrics, o.Registry.Replica = true, r.metrics, "running"
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	hub, rule := r.client["hub"], compiled(t)
	must(t, hub.Create(t.Context(), hours()))
	must(t, hub.Create(t.Context(), configMap("hours", map[string]string{"open": "9"})))
	for _, name := range names {
		for _, o := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"team": "a"}}}, roles.OfRuleInRemote(rule),
		} {
			must(t, r.client[name].Create(t.Context(), o))
		}
	}
	r.awaitRest(t, names)
	return r
}

// awaitRest returns when the hub has written what its modules want, and has reported that.
func (r *running) awaitRest(t *testing.T, names []string) {
	t.Helper()
	hub := r.client["hub"]
	exists := func(in, namespace string, o client.Object) {
		o.SetNamespace(namespace)
		eventually(t, func() error { return r.client[in].Get(t.Context(), client.ObjectKeyFromObject(o), o) })
	}
	for _, name := range names {
		exists(name, "default", configMap("hours", nil))
		exists(name, "tenant-acme", &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}})
		exists(name, "team-a", &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "clusterfx-quota"}})
		exists("hub", "default", configMap("podcount-"+name, nil))
		counted, cluster := configMap("clusterfx-quota-"+name, nil), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		eventually(t, func() error {
			err := errors.Join(hub.Get(t.Context(), client.ObjectKeyFromObject(counted), counted), hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
			isReady := meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady)
			if err == nil && (counted.Data["count"] != "1" || cluster.Status.Inventory.Nodes == nil || !isReady) {
				err = fmt.Errorf("%w: %s has %v, and its Cluster %+v", errNotAtRest, counted.Name, counted.Data, cluster.Status)
			}
			return err
		})
	}
	followed, copies := hours(), int32(len(names))
	eventually(t, func() error {
		err := hub.Get(t.Context(), client.ObjectKeyFromObject(followed), followed)
		isComplete := meta.IsStatusConditionTrue(followed.Status.Conditions, hubv1.ConditionComplete)
		if err == nil && (!isComplete || followed.Status.Copies == nil || *followed.Status.Copies != copies) {
			err = fmt.Errorf("%w: the rule has the status %+v", errNotAtRest, followed.Status)
		}
		return err
	})
}

var (
	errNotAtRest = errors.New("the hub is not at rest")
	errNoLoad    = errors.New("there is no figure")
)

func compiled(t *testing.T) rules.Rule {
	t.Helper()
	rule, err := rules.Compile(hours())
	must(t, err)
	return rule
}

// rehearsal returns options with the accounts of rehearsals, and what else the hub has.
func (r *running) rehearsal(t *testing.T) rehearse.Options {
	t.Helper()
	o := r.register(t, onRequest, r.hub.Modules...)
	o.Hub.NATS, o.Hub.Registry.ModuleConfigs = r.hub.NATS, r.hub.Registry.ModuleConfigs
	return o
}

// Promise: the same version of a hub at rest agrees with the fleet, and its report is the same when it is repeated; one that differs
// in some remotes changes exactly these objects and fields.
func TestRun_SameVersion(t *testing.T) {
	t.Parallel()
	r := newRunning(t, "oslo", "rome")
	r.expectAgreement(t)
	r.expectDifference(t, "rome")
}

func TestRun_SameVersionInTwelve(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/rehearse TestRun_SameVersion")
	t.Parallel()
	names := []string{}
	for i := range 12 {
		names = append(names, fmt.Sprintf("remote-%d", i))
	}
	r := newRunning(t, names...)
	r.expectAgreement(t)
	r.expectDifference(t, names[2], names[7])
	r.expectProblem(t, names[0])
}

func (r *running) expectAgreement(t *testing.T) {
	t.Helper()
	var names []string
	for _, c := range r.remotes {
		names = append(names, c.Name())
	}
	o := r.rehearsal(t)
	begin := time.Now()
	first := run(t, o)
	testkit.Equal(t, first.Verdict(), rehearse.Agrees, "verdict")
	testkit.Equal(t, first.Clusters, slices.Sorted(slices.Values(names)), "Clusters")
	for _, name := range names {
		testkit.Equal(t, first.Memory[name], 1, "MiB in memory of "+name)
	}
	var second *rehearse.Report
	eventually(t, func() error { // Objects are counted at times, and not if a rehearsal ends before.
		o.Against = testkit.File(t, "file", r.exposition(t))
		second = run(t, o)
		return lacksLoad(second, names)
	})
	second.Load = nil
	testkit.Equal(t, printed(t, second), printed(t, first), "the report of the second rehearsal")
	r.expectNoWrite(t)
	// The running hub has nothing to do because of the rehearsals. It keeps records of its own in the namespace of its Secrets.
	for _, c := range append(r.remotes, r.audited.hub) {
		events, err := c.AuditEvents(fleet.ByAgent(runningAgent), fleet.Since(begin))
		must(t, err)
		for _, e := range events {
			isReview := strings.HasSuffix(e.Object.Resource, "reviews")
			if e.Verb == "list" && c != r.audited.hub || e.Writes() && !isReview && e.Object.Namespace != hubv1.DefaultNamespace {
				t.Errorf("the running hub, beside a rehearsal, in %s: %s", c.Name(), e)
			}
		}
	}
}

// lacksLoad returns an error unless the requests, objects and memory of each app are beside those of the running hub.
func lacksLoad(report *rehearse.Report, names []string) error {
	for _, name := range names {
		for _, what := range []string{"objects of ConfigMap", "bytes in memory", "requests"} {
			isBoth := func(l rehearse.Load) bool {
				return l.Cluster == name && l.What == what && l.Rehearsed > 0 && l.Running > 0
			}
			if !slices.ContainsFunc(report.Load, isBoth) {
				return fmt.Errorf("%w of %s in %+v: %s", errNoLoad, name, report.Load, what)
			}
		}
	}
	return nil
}

// expectDifference rehearses a configuration of quota that differs in remotes with these names.
func (r *running) expectDifference(t *testing.T, names ...string) {
	t.Helper()
	o := r.rehearsal(t)
	in := metav1.LabelSelectorRequirement{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: names}
	o.Hub.Registry.ModuleConfigs = append(slices.Clone(r.hub.Registry.ModuleConfigs), moduleconfig.Config{Name: "quota", Overrides: []moduleconfig.Override{{
		Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}}, Config: json.RawMessage(`{"pods":50}`),
	}}})
	report := run(t, o)
	var want []string
	for _, name := range names {
		want = append(want, name+`: change resourcequotas team-a/clusterfx-quota spec.hard.pods="100"->"50"`)
	}
	testkit.Equal(t, changes(report, "quota"), want, "changes of quota")
	testkit.Equal(t, len(report.Changes), len(names), "changes of all modules")
	r.expectNoWrite(t)
}

func (r *running) exposition(t *testing.T) []byte {
	t.Helper()
	families, err := r.metrics.Gather()
	must(t, err)
	var text bytes.Buffer
	for _, family := range families {
		must(t, testkit.Err(expfmt.MetricFamilyToText(&text, family)))
	}
	return text.Bytes()
}

// expectProblem: a rule of sync that the accounts of rehearsals have no permissions for is a finding, and not an agreement.
func (r *running) expectProblem(t *testing.T, name string) {
	t.Helper()
	must(t, r.client[name].Delete(t.Context(), roles.OfRuleInRemote(compiled(t))))
	o := r.rehearsal(t)
	o.Quiet, o.Max = 10*time.Second, 1
	report := run(t, o)
	testkit.Equal(t, report.Verdict(), rehearse.Unknown, "verdict")
	found := slices.IndexFunc(report.Findings, func(f rehearse.Finding) bool {
		return f.Class == rehearse.NotRunning && f.Object == "syncrules.clusterfx.dev/status hours"
	})
	if found < 0 {
		t.Error("there is no finding about the rule")
	}
}
