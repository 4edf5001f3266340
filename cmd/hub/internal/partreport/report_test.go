// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

// as returns a client of the hub's cluster for a user with some permissions.
func as(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	user, err := fleettest.Cluster(t, "hub").MintCertificate(t.Context(), fleet.User{Name: name, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(user.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(f).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(gomega.Succeed())
}

// The report is written at the start and after a change, with the permissions of Rules and the permission to create
// ConfigMaps. Without them the writer retries, and does not fail.
func TestWriter(t *testing.T) {
	t.Parallel()
	admin, err := client.New(fleettest.Cluster(t, "hub").Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}
	for user, allowed := range map[string][]rbacv1.PolicyRule{"reports": slices.Concat(Rules(), []rbacv1.PolicyRule{create}), "may-not-report": nil} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: user + "-"}}
		if err := admin.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		states, wake := make(chan string, 2), make(chan struct{}, 1)
		states <- state.ModuleWaiting
		w := NewWriter(Options{
			Client: as(t, user, allowed...), Namespace: namespace.Name, Replica: "one", Log: logr.Discard(),
			Parts: func() []state.HubPartStatus {
				return []state.HubPartStatus{{Module: "dns", State: <-states, Reason: "Why"}}
			},
		}, wake)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Start(ctx) }()
		if allowed != nil {
			expect(t, admin, namespace.Name, "Waiting (Why)")
		}
		states <- state.ModuleRunning
		wake <- struct{}{}
		if allowed != nil {
			expect(t, admin, namespace.Name, "Running")
		}
		eventually(t, func() error {
			if len(states) > 0 {
				return errors.New("it is not tried again")
			}
			return nil
		})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the writer returns %v, which ends the hub", err)
		}
	}
}

func expect(t *testing.T, c client.Client, namespace, state string) {
	t.Helper()
	eventually(t, func() error {
		report, err := Read(t.Context(), c, namespace)
		if err != nil || report == nil || report.Replica != "one" || report.Old() || report.Of("other") != nil {
			return fmt.Errorf("the report is %+v: %w", report, err)
		}
		if part := report.Of("dns"); part == nil || part.String() != state {
			return fmt.Errorf("the state is %v, want %s", part, state)
		}
		return nil
	})
}

// A report is old if the hub has not refreshed it for too long.
func TestReport_Old(t *testing.T) {
	t.Parallel()
	for age, old := range map[time.Duration]bool{-time.Minute: false, 2 * refresh: false, 4 * refresh: true} {
		r := Report{Written: metav1.NewTime(time.Now().Add(-age))}
		if r.Old() != old {
			t.Errorf("a report of %s ago is old: %t", age, r.Old())
		}
	}
}
