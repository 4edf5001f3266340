// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// slow is a registry whose actor is slow: a posted state is visible after a call of takeUp.
type slow struct {
	posted []state.Desired
	info   registry.Status
	err    error
}

var _ remotes = (*slow)(nil)

func (s *slow) Ensure(_ registry.ClusterName, c state.Desired) error {
	s.posted = append(s.posted, c)
	return s.err
}

func (s *slow) Remove(context.Context, registry.ClusterName) error { return nil }

func (s *slow) Stop(context.Context, registry.ClusterName) error { return nil }

func (s *slow) Status(registry.ClusterName) (registry.Status, bool) { return s.info, true }

func (s *slow) Relabel(registry.ClusterName, map[string]string, map[string]string) error { return nil }

func (s *slow) AdmitRemoval(context.Context, registry.Removal) error { return nil }

func (s *slow) AllowDeletes(context.Context, registry.ClusterName, string) error { return nil }

func (s *slow) takeUp() { s.info.Revision = s.posted[len(s.posted)-1].Revision }

func TestEnsure(t *testing.T) {
	t.Parallel()
	bad := refused(hubv1.ReasonInvalidKubeconfig, "bad")
	cluster := func(generation int64, state hubv1.ClusterState) *hubv1.Cluster {
		return &hubv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: generation},
			Spec:       hubv1.ClusterSpec{State: state},
		}
	}
	t.Run("a snapshot that is older than what was posted is not reported", func(t *testing.T) {
		t.Parallel()
		s := &slow{info: allWell}
		r := &reconciler{share: everything{}, remotes: s, suspects: noSuspects{}}
		for _, step := range []struct {
			cluster *hubv1.Cluster
			found   credentials
		}{
			{cluster(1, hubv1.ClusterActive), good},
			{cluster(2, hubv1.ClusterActive), good},                                                // another spec
			{cluster(2, hubv1.ClusterActive), but(good, func(c *credentials) { c.version = "2" })}, // another Secret
		} {
			if runs, err := r.ensure(t.Context(), step.cluster, step.found, RoleRunner); runs.current || err != nil {
				t.Errorf("%+v: got current %t and error %v before the actor, want false and no error", step, runs.current, err)
			}
			s.takeUp()
			if runs, err := r.ensure(t.Context(), step.cluster, step.found, RoleRunner); !runs.current || err != nil {
				t.Errorf("%+v: got current %t and error %v after the actor, want true and no error", step, runs.current, err)
			}
		}
	})
	t.Run("bad credentials are not posted, and what runs is reported", func(t *testing.T) {
		t.Parallel()
		s := &slow{info: allWell}
		r := &reconciler{share: everything{}, remotes: s, suspects: noSuspects{}}
		runs, err := r.ensure(t.Context(), cluster(2, hubv1.ClusterActive), bad, RoleRunner)
		if runs.info.State != state.StateReady || !runs.current || err != nil || len(s.posted) != 0 {
			t.Errorf("got state %s, current %t, error %v and posts %v, want Ready, true, no error and no post", runs.info.State, runs.current, err, s.posted)
		}
	})
	t.Run("a pause is posted without credentials", func(t *testing.T) {
		t.Parallel()
		s := &slow{}
		r := &reconciler{share: everything{}, remotes: s, suspects: noSuspects{}}
		if _, err := r.ensure(t.Context(), cluster(1, hubv1.ClusterPaused), bad, RoleRunner); err != nil || len(s.posted) != 1 || !s.posted[0].Paused {
			t.Errorf("got error %v and posts %+v, want one paused post", err, s.posted)
		}
	})
	t.Run("a hub that is ending is no error", func(t *testing.T) {
		t.Parallel()
		r := &reconciler{share: everything{}, remotes: &slow{err: registry.ErrClosed}, suspects: noSuspects{}}
		if runs, err := r.ensure(t.Context(), cluster(1, hubv1.ClusterActive), good, RoleRunner); runs.current || err != nil {
			t.Errorf("got current %t and error %v, want false and no error", runs.current, err)
		}
		sentinel := errors.New("sentinel")
		r = &reconciler{share: everything{}, remotes: &slow{err: sentinel}, suspects: noSuspects{}}
		if _, err := r.ensure(t.Context(), cluster(1, hubv1.ClusterActive), good, RoleRunner); !errors.Is(err, sentinel) {
			t.Errorf("got error %v, want the sentinel", err)
		}
	})
}
