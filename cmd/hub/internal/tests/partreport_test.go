// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// The report is written at the start and after a change, with the permissions of Rules and the permission to create ConfigMaps. It
// replaces the content of an existing ConfigMap, with the permissions of Rules alone. Without permissions the writer does not fail.
func TestWriter(t *testing.T) {
	t.Parallel()
	admin := fleettest.Client(t, fleettest.Cluster(t, "hub"))
	create := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}
	for user, allowed := range map[string][]rbacv1.PolicyRule{
		"reports": slices.Concat(partreport.Rules(), []rbacv1.PolicyRule{create}), "replaces": partreport.Rules(), "may-not-report": nil,
	} {
		namespace := fleettest.Namespace(t, admin, user+"-")
		if user == "replaces" {
			must(t, admin.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: partreport.Name, Annotations: map[string]string{"example.com/by": "another"}},
				Data:       map[string]string{"hub-parts.json": "no JSON", "another": "key"},
			}))
		}
		states, wake := make(chan string, 2), make(chan struct{}, 1)
		states <- state.ModuleWaiting
		w := partreport.NewWriter(partreport.Options{
			Client: clientAs(t, user, allowed...), Namespace: namespace, Replica: "one", Log: logr.Discard(),
			Parts: func() []state.HubPartStatus {
				return []state.HubPartStatus{{Module: "dns", State: <-states, Reason: "Why"}}
			},
		}, wake)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		if allowed != nil {
			expectReport(t, admin, namespace, "Waiting (Why)")
		}
		states <- state.ModuleRunning
		wake <- struct{}{}
		if allowed != nil {
			expectReport(t, admin, namespace, "Running")
		}
		testkit.Until(t, "the writer reads the new state", func() bool { return len(states) == 0 })
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the writer returns %v, which ends the hub", err)
		}
	}
}

func expectReport(t *testing.T, c client.Client, namespace, state string) {
	t.Helper()
	eventually(t, func() error {
		var written corev1.ConfigMap
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: partreport.Name}, &written); err != nil {
			return err
		}
		if len(written.Data) != 1 || len(written.Annotations) != 0 {
			return fmt.Errorf("the ConfigMap keeps other content: %v, %v", written.Data, written.Annotations)
		}
		reports, err := partreport.Read(t.Context(), c, namespace)
		report := reports.Latest()
		if err != nil || report == nil || report.Replica != "one" || report.Old() || report.Of("other") != nil {
			return fmt.Errorf("the report is %+v: %w", report, err)
		}
		if part := report.Of("dns"); part == nil || part.String() != state {
			return fmt.Errorf("the state is %v, want %s", part, state)
		}
		return nil
	})
}

// refusing is a client that refuses the first updates.
type refusing struct {
	client.Client
	refusals int
	start    time.Time
	updates  []time.Duration // since start
}

// Update returns an error, or nothing.
func (r *refusing) Update(context.Context, client.Object, ...client.UpdateOption) error {
	r.updates = append(r.updates, time.Since(r.start))
	if len(r.updates) <= r.refusals {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), partreport.Name, nil)
	}
	return nil
}

// The writer retries by itself until a write succeeds, logs only the first failure, and then refreshes the report.
func TestWriter_Retries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, lines := &refusing{refusals: 2, start: time.Now()}, 0
		w := partreport.NewWriter(partreport.Options{
			Client: c, Parts: func() []state.HubPartStatus { return nil },
			Log: funcr.New(func(string, string) { lines++ }, funcr.Options{}),
		}, nil)
		const retry, refresh = 30 * time.Second, 5 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), 2*retry+refresh+time.Second)
		defer cancel()
		if err := w.Start(ctx); err != nil {
			t.Errorf("the writer returns %v, which ends the hub", err)
		}
		if want := []time.Duration{0, retry, 2 * retry, 2*retry + refresh}; !slices.Equal(c.updates, want) || lines != 1 {
			t.Errorf("the writer writes after %v and logs %d lines, want %v and 1", c.updates, lines, want)
		}
	})
}

// A report is old if the hub has not refreshed it for too long.
func TestReport_Old(t *testing.T) {
	t.Parallel()
	for age, old := range map[time.Duration]bool{-time.Minute: false, 10 * time.Minute: false, 20 * time.Minute: true} {
		r := partreport.Report{Written: metav1.NewTime(time.Now().Add(-age))}
		if r.Old() != old {
			t.Errorf("a report of %s ago is old: %t", age, r.Old())
		}
	}
}
