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

// Survey is what the objects of an installation say, for people. The objects are read one after the other, so that a change
// between two reads shows in one of them only.
type Survey struct {
	// Holders has, for each shard, the holder in its record. A record that is missing has none.
	Holders []shards.Holder
	// Leader is the name of the replica that has written the assignment; empty if there is none.
	Leader string
	// Members are the replicas that have a Lease, sorted by name.
	Members []Member
}

// Member is a replica that has a Lease.
type Member struct {
	// Name is the name of the replica.
	Name string
	// Lease is its Lease.
	Lease shards.Lease
	// Labels are the labels of the replica.
	Labels map[string]string
	// Version is the version of its program; empty if its Lease does not say it.
	Version string
	// Duration is how long the Lease is unchanged before it is over.
	Duration time.Duration
}

// IsOver reports whether the Lease has no incarnation, or has expired: its last renewal is older than Duration. Now is the time
// of the wall clock, which is compared with that of the replica, so the result is for people: no replica decides by it.
func (m Member) IsOver(now time.Time) bool {
	return m.Lease.Incarnation == "" || now.Sub(m.Lease.Renewed) >= m.Duration
}

// ReadSurvey reads the objects of an installation. It sends three requests and blocks for as long as they take. The error
// matches ErrNotSharded in a hub without an installation. An error that comes with a Survey names the objects that cannot be
// decoded, which the Survey lacks.
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

// add adds Leases, and returns an error for each that cannot be decoded.
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

// memberOf returns the replica that has a Lease.
func memberOf(l *coordinationv1.Lease) Member {
	decoded, _ := decodeLease(l) // It fails for another label only.
	m := Member{Name: l.Name, Lease: decoded, Labels: labelsOf(l), Version: l.Annotations[annotationVersion], Duration: DefaultDuration}
	if l.Spec.LeaseDurationSeconds != nil {
		m.Duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return m
}

// SetDrained says that an administrator wants a replica to have no shards, or ends that wish. It sends one request, which
// changes an annotation of the Lease of the replica and nothing else, whatever version the Lease has. A renewal that is on its
// way meanwhile fails, and the replica repeats it. A Lease that does not exist is an error of the API server.
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
