// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNoReplicas says that no replica of a hub has run in a namespace.
var ErrNoReplicas = errors.New("no replica of a hub has run here")

// Survey is what the objects say, for people. They are read one after the other: a change in between shows in one only.
type Survey struct {
	Holders []string // Holders has the Lease of the holder of each shard; empty for none, or a missing record.
	Members []Member // Members have a Lease.
}

// Member is a Lease of a replica.
type Member struct {
	Name     string
	Lease    shards.Lease
	Drained  bool // Drained: an administrator wants its Pod to have no shards.
	Duration time.Duration
}

// IsOver reports whether the Lease has no holder, or has expired by the replica's wall clock: it is for people.
func (m Member) IsOver(now time.Time) bool {
	return !m.Lease.Held || now.Sub(m.Lease.Renewed) >= m.Duration
}

// ReadSurvey blocks for three requests. It matches ErrNoReplicas without an installation; else it names what cannot be decoded.
func ReadSurvey(ctx context.Context, from client.Reader, namespace string) (*Survey, error) {
	installation, wish := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, to := range map[string]*corev1.ConfigMap{installationName: installation, assignmentName: wish} {
		err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, to)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
		}
	}
	if installation.Labels[label] != labelInstallation {
		return nil, fmt.Errorf("%w: there is no ConfigMap %s/%s of it", ErrNoReplicas, namespace, installationName)
	}
	count, err := strconv.Atoi(installation.Data[keyCount])
	if err != nil || count < 1 || count > MaxCount {
		return nil, fmt.Errorf("the ConfigMap %s/%s has %q shards, which is no number from 1 to %d; write the number that the replicas have",
			namespace, installationName, installation.Data[keyCount], MaxCount)
	}
	var leases coordinationv1.LeaseList
	if err := from.List(ctx, &leases, client.InNamespace(namespace), client.HasLabels{label}); err != nil {
		return nil, fmt.Errorf("list the Leases of replicas in %s: %w", namespace, err)
	}
	s := &Survey{Holders: make([]string, count+1)}
	return s, s.add(leases.Items, decodeAssignment(wish).drained)
}

// add returns an error for each that cannot be decoded.
func (s *Survey) add(leases []coordinationv1.Lease, drained map[string]bool) error {
	var problems []error
	for i := range leases {
		l := &leases[i]
		switch l.Labels[label] {
		case labelRecord:
			shard, record, err := decodeRecord(l, len(s.Holders)-1)
			if err != nil {
				problems = append(problems, fmt.Errorf("the Lease %s: %w", l.Name, err))
				continue
			}
			s.Holders[shard] = record.Holder
		case labelReplica:
			s.Members = append(s.Members, memberOf(l, drained))
		}
	}
	return errors.Join(problems...)
}

func memberOf(l *coordinationv1.Lease, drained map[string]bool) Member {
	decoded, _ := decodeLease(l) // It fails for another label only.
	m := Member{Name: l.Name, Lease: decoded, Drained: drained[shards.PodOf(l.Name)], Duration: DefaultDuration}
	if l.Spec.LeaseDurationSeconds != nil {
		m.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return m
}

// LivePods has the names of the Pods of replicas whose Leases are not over by the clock of this machine. It blocks for a request.
func LivePods(ctx context.Context, from client.Reader, namespace string) ([]string, error) {
	var leases coordinationv1.LeaseList
	if err := from.List(ctx, &leases, client.InNamespace(namespace), client.MatchingLabels{label: labelReplica}); err != nil {
		return nil, fmt.Errorf("list the Leases of replicas in %s: %w", namespace, err)
	}
	var s Survey
	err := s.add(leases.Items, nil)
	return slices.Compact(slices.Sorted(maps.Values(s.Live(time.Now())))), err
}

// Live has the Leases that are not over by the clock of this machine, with the names of their Pods.
func (s *Survey) Live(now time.Time) map[string]string {
	live := map[string]string{}
	for _, m := range s.Members {
		if !m.IsOver(now) {
			live[m.Name] = shards.PodOf(m.Name)
		}
	}
	return live
}

// Unheld is how many shards have no live holder.
func (s *Survey) Unheld(now time.Time) (n int) {
	live := s.Live(now)
	for _, holder := range s.Holders {
		if live[holder] == "" {
			n++
		}
	}
	return n
}

// IsDrainIgnored reports whether all live replicas are drained, so that the hub ignores it.
func (s *Survey) IsDrainIgnored(now time.Time) bool {
	drained := 0
	for _, m := range s.Members {
		switch {
		case m.IsOver(now) || m.Lease.Leaving:
		case !m.Drained:
			return false
		default:
			drained++
		}
	}
	return drained > 0
}

// Pods has the names of the Pods that have a Lease.
func (s *Survey) Pods() sets.Set[string] {
	pods := sets.New[string]()
	for _, m := range s.Members {
		pods.Insert(shards.PodOf(m.Name))
	}
	return pods
}
