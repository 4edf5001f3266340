// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// One replica makes Clusters from Secrets, and another one does so when it is killed. Whoever leads, the Clusters belong to the
// replicas that have their shards.
func TestSharding_WhatRunsOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, 2)
	s.startAll("a", "b")
	s.registerBySecret("first")
	leader := s.elected("")
	s.expectCreator("first", leader)
	s.replicas[leader].kill()
	s.registerBySecret("second")
	next := s.elected(leader)
	s.expectCreator("second", next)
	t.Logf("%s led, and %s after it was killed", leader, next)
}

// registerBySecret creates a Secret that registers a remote by itself.
func (s *stage) registerBySecret(name string) {
	s.t.Helper()
	must(s.t, s.admin.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hubv1.DefaultNamespace, Name: name, Labels: map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue},
		},
		Data: map[string][]byte{"kubeconfig": s.remotes[0].Kubeconfig()},
	}))
}

// elected returns the replica that leads, which is not the one before.
func (s *stage) elected(before string) string {
	s.t.Helper()
	name := ""
	eventually(s.t, func() error {
		var lease coordinationv1.Lease
		if err := s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: hubv1.DefaultNamespace, Name: "clusterfx-hub-leader"}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil {
			return errors.New("the Lease of the leader has no holder")
		}
		name, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		if name == before || s.replicas[name] == nil {
			return fmt.Errorf("the leader is %q", name)
		}
		return nil
	})
	return name
}

// expectCreator waits until a Cluster is Ready, and fails the test unless that replica, and no other, created it.
func (s *stage) expectCreator(name, replica string) {
	s.t.Helper()
	eventually(s.t, func() error {
		var found hubv1.Cluster
		if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, &found); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(found.Status.Conditions, hubv1.ConditionReady) {
			return fmt.Errorf("%s is not Ready: %+v", name, found.Status.Conditions)
		}
		return nil
	})
	events, err := s.hub.AuditEvents(fleet.ByAgent("clusterfx/"), func(e fleet.AuditEvent) bool {
		return e.Verb == "create" && e.Object.Resource == "clusters" && e.Object.Name == name
	})
	must(s.t, err)
	if len(events) != 1 || !strings.HasPrefix(events[0].UserAgent, "clusterfx/"+replica) {
		s.t.Errorf("%s was created by %v, want by %s once", name, events, replica)
	}
}
