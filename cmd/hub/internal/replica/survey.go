// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNotSharded says that the replicas of a hub do not share its Clusters.
var ErrNotSharded = errors.New("the hub does not run with --replicas-mode=Sharded")

// Survey is what the objects say, for people. They are read one after the other: a change in between shows in one only.
type Survey struct {
	Holders []shards.Holder // Holders has the holder of each shard; none for a missing record.
	Leader  string          // Leader has written the assignment; may be empty.
	Members []Member        // Members have a Lease, sorted by name.
}

// Member is a replica that has a Lease.
type Member struct {
	Name   string
	Lease  shards.Lease
	Labels map[string]string
	// Version of the program; may be empty.
	Version  string
	Duration time.Duration
}

// IsOver reports whether the Lease has no incarnation, or has expired by the replica's wall clock: it is for people.
func (m Member) IsOver(now time.Time) bool {
	return m.Lease.Incarnation == "" || now.Sub(m.Lease.Renewed) >= m.Duration
}

// ReadSurvey blocks for three requests. It matches ErrNotSharded without an installation; else it names what cannot be decoded.
func ReadSurvey(ctx context.Context, from client.Reader, namespace string) (*Survey, error) {
	installation, wish := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, to := range map[string]*corev1.ConfigMap{installationName: installation, assignmentName: wish} {
		err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, to)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
		}
	}
	if installation.Labels[label] != labelInstallation {
		return nil, fmt.Errorf("%w: there is no ConfigMap %s/%s of it", ErrNotSharded, namespace, installationName)
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
	s := &Survey{Holders: make([]shards.Holder, count), Leader: decodeAssignment(wish).leader}
	return s, s.add(leases.Items)
}

// add returns an error for each that cannot be decoded.
func (s *Survey) add(leases []coordinationv1.Lease) error {
	var problems []error
	for i := range leases {
		l := &leases[i]
		switch l.Labels[label] {
		case labelRecord:
			shard, record, err := decodeRecord(l, len(s.Holders))
			if err != nil {
				problems = append(problems, fmt.Errorf("the Lease %s: %w", l.Name, err))
				continue
			}
			s.Holders[shard] = record.Holder
		case labelReplica:
			s.Members = append(s.Members, memberOf(l))
		}
	}
	slices.SortFunc(s.Members, func(x, y Member) int { return cmp.Compare(x.Name, y.Name) })
	return errors.Join(problems...)
}

func memberOf(l *coordinationv1.Lease) Member {
	decoded, _ := decodeLease(l) // It fails for another label only.
	m := Member{Name: l.Name, Lease: decoded, Labels: labelsOf(l), Version: l.Annotations[annotationVersion], Duration: DefaultDuration}
	if l.Spec.LeaseDurationSeconds != nil {
		m.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return m
}

// SetDrained says that an administrator wants a replica to have no shards, or ends that wish, by an annotation of its Lease,
// whatever the version. A renewal meanwhile fails and is repeated. A missing Lease is an error of the API server.
func SetDrained(ctx context.Context, to client.Writer, key client.ObjectKey, drained bool) error {
	value := "null"
	if drained {
		value = strconv.Quote(isSet)
	}
	data := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, annotationDrain, value)
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = key.Namespace, key.Name
	if err := to.Patch(ctx, lease, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("change the annotation %s of the Lease %s: %w", annotationDrain, key, err)
	}
	return nil
}
