// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/diagnose"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
)

// diagnosed is an installation in a namespace of its own, without a hub.
type diagnosed struct {
	diagnose.Installation
	t *testing.T
}

func newDiagnosed(t *testing.T, role string) *diagnosed {
	t.Helper()
	cluster := fleettest.Cluster(t, role)
	fleettest.InstallCRDs(t, cluster.Config())
	c, err := access.New("the hub", cluster.Config())
	must(t, err)
	namespace := fleettest.Namespace(t, c, "diagnose-")
	return &diagnosed{diagnose.Installation{Hub: c, Namespace: namespace}, t}
}

func (d *diagnosed) create(o client.Object, name, kind string, annotations map[string]string) {
	d.t.Helper()
	o.SetNamespace(d.Namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{"clusterfx.dev/sharding": kind})
	o.SetAnnotations(annotations)
	must(d.t, d.Hub.Create(d.t.Context(), o))
}

// leaseOf returns a Lease with a holder that was renewed some time ago.
func leaseOf(holder string, ago time.Duration, seconds int32) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds}}
}

// finds returns the findings of a check, and what they say.
func (d *diagnosed) finds(check string) (levels []diagnose.Level, text string) {
	d.t.Helper()
	for _, f := range d.Check(d.t.Context()) {
		if f.Check != check {
			continue
		}
		levels = append(levels, f.Level)
		text += fmt.Sprintf("%s %s (%s); ", f.Level, f.Text, f.Advice)
		if (f.Level == diagnose.OK) != (f.Advice == "") {
			d.t.Errorf("the advice on %q is %q", f.Text, f.Advice)
		}
	}
	return levels, text
}

// A CRD that lacks fields of the status is no failure: they are named with the command that updates the CRD.
func TestInstallation_CRD(t *testing.T) {
	t.Parallel()
	d := newDiagnosed(t, "oldcrd")
	scheme := runtime.NewScheme()
	must(t, apiextensionsv1.AddToScheme(scheme))
	direct, err := client.New(d.Hub.Config, client.Options{Scheme: scheme})
	must(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(t, direct.Get(t.Context(), client.ObjectKey{Name: "clusters.clusterfx.dev"}, crd))
	delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties, "version")
	must(t, direct.Update(t.Context(), crd))
	gomega.NewWithT(t).Eventually(func() string {
		levels, text := d.finds("crd")
		return fmt.Sprint(levels, text)
	}).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(gomega.And(
		gomega.ContainSubstring(string(diagnose.Warning)), gomega.ContainSubstring("cannot report status.version ("), gomega.ContainSubstring("hub install")))
}

// The Leases of the replicas, and the holders of the shards, say whether a hub works; without a live replica, the report of a hub alone.
func TestInstallation_Replicas(t *testing.T) {
	t.Parallel()
	const live, drained, leaving, over = "live", "drained", "leaving", "over"
	for name, c := range map[string]struct {
		shards, unheld int // the first replica has the others; shards without that of what runs once
		replicas       []string
		want           []diagnose.Level
		text           string
	}{
		"no shards yet":              {0, 0, nil, []diagnose.Level{diagnose.Warning}, "no hub has run in diagnose-"},
		"all live":                   {3, 0, []string{live, live, over}, []diagnose.Level{diagnose.OK}, "2 replicas are live, and all 4"},
		"a replica is drained":       {3, 0, []string{live, drained}, []diagnose.Level{diagnose.OK}, "2 replicas are live, and all 4"},
		"shards without a holder":    {3, 2, []string{live, over}, []diagnose.Level{diagnose.Warning}, "1 replica is live, and 2 of 4 shards have no live holder"},
		"no shard has a holder":      {3, 4, []string{live}, []diagnose.Level{diagnose.Failure}, "1 replica is live, and 4 of 4 shards"},
		"none is live":               {3, 0, []string{over}, []diagnose.Level{diagnose.Failure}, "no replica is live, and 4 of 4 shards"},
		"the last replica ends":      {3, 0, []string{leaving, over}, []diagnose.Level{diagnose.OK}, "1 replica is live, and all 4"},
		"the drain of all: no drain": {3, 0, []string{drained}, []diagnose.Level{diagnose.OK, diagnose.Warning}, "all live replicas are drained"},
		"alone after replicas":       {3, 4, []string{over}, []diagnose.Level{diagnose.OK}, "hub laptop works alone"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			d := newDiagnosed(t, "hub")
			lease := func(replica int) string { return fmt.Sprintf("hub-%d-0123456789ab", replica) }
			if c.shards > 0 {
				d.create(&corev1.ConfigMap{Data: map[string]string{"shards": fmt.Sprint(c.shards), "protocol": "1", "complete": "true"}}, "clusterfx-sharding", "installation", nil)
			}
			if strings.HasPrefix(name, "alone") {
				d.create(&corev1.ConfigMap{Data: map[string]string{"laptop": "[]"}}, partreport.Name, "", nil)
			}
			wish := map[string]string{}
			for i := range (c.shards + 1) * min(c.shards, 1) {
				record, epoch := &coordinationv1.Lease{}, int32(1)
				if record.Spec.LeaseTransitions = &epoch; i >= c.unheld {
					holder := lease(0)
					record.Spec.HolderIdentity = &holder
				}
				d.create(record, fmt.Sprint("clusterfx-shard-", i), "record", map[string]string{"clusterfx.dev/shards": fmt.Sprint(c.shards)})
			}
			for i, state := range c.replicas {
				ago := map[string]time.Duration{over: time.Hour}[state]
				annotations := map[string]map[string]string{leaving: {"clusterfx.dev/leaving": "true"}}[state]
				d.create(leaseOf(lease(i), ago, 600), lease(i), "replica", annotations)
				if state == drained {
					wish[fmt.Sprintf("drained.hub-%d", i)] = "true"
				}
			}
			d.create(&corev1.ConfigMap{Data: wish}, "clusterfx-assignment", "assignment", nil)
			if levels, text := d.finds("replicas"); !slices.Equal(levels, c.want) || !strings.Contains(text, c.text) {
				t.Errorf("got %s want %v with: %s", text, c.want, c.text)
			}
		})
	}
}

// A hub part that waits for the turn of its replica is no trouble.
func TestInstallation_Modules(t *testing.T) {
	t.Parallel()
	d := newDiagnosed(t, "hub")
	runs := partreport.Part{Module: "runs", State: state.ModuleRunning}
	standsBy := partreport.Part{Module: "stands-by", State: state.ModuleStandby, Reason: state.ReasonStandby}
	failed := partreport.Part{Module: "failed", State: state.ModuleFailed, Reason: state.ReasonModuleFailed}
	reports := &corev1.ConfigMap{Data: map[string]string{}}
	report := func(replica string, parts ...partreport.Part) {
		t.Helper()
		text, err := json.Marshal(parts)
		must(t, err)
		reports.Data[replica] = string(text)
	}
	report("another", runs, standsBy)
	report("one", runs, standsBy)
	d.create(reports, partreport.Name, "reports", nil)
	if levels, text := d.finds("modules"); !slices.Equal(levels, []diagnose.Level{diagnose.OK}) || !strings.Contains(text, "2 hub parts run in another, one") {
		t.Errorf("got %s want that two hub parts run", text)
	}
	report("one", runs, standsBy, failed)
	must(t, d.Hub.Update(t.Context(), reports))
	if levels, text := d.finds("modules"); !slices.Equal(levels, []diagnose.Level{diagnose.Failure}) || !strings.Contains(text, "module failed is Failed (ModuleFailed) in one since") {
		t.Errorf("got %s want that one hub part has failed", text)
	}
}
