// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const (
	installationName = "clusterfx-sharding"
	assignmentName   = "clusterfx-assignment"
	recordPrefix     = "clusterfx-shard" // which no replica has
)

// MaxCount of shards: each is an object of its own.
const MaxCount = 1024

const (
	label             = "clusterfx.dev/sharding"
	labelInstallation = "installation"
	labelAssignment   = "assignment"
	labelRecord       = "record"
	labelReplica      = "replica"
)

// An annotation that is not set is missing.
const (
	annotationCount    = "clusterfx.dev/shards"            // of a record: the number of all shards
	annotationWarm     = "clusterfx.dev/warm"              // of a record: name/incarnation
	annotationPromised = "clusterfx.dev/promised"          // of a record
	annotationReleased = "clusterfx.dev/released-by"       // of a record without a holder: name/incarnation
	annotationLeaving  = "clusterfx.dev/leaving"           // of the Lease of a replica
	annotationEnded    = "clusterfx.dev/ended-incarnation" // of the Lease of a replica: an earlier incarnation, which has ended
	annotationDrain    = "clusterfx.dev/drain"             // of the Lease of a replica: the wish of an administrator
	annotationLabels   = "clusterfx.dev/replica-labels"    // of the Lease of a replica: key=value, separated by commas
	annotationVersion  = "clusterfx.dev/replica-version"   // of the Lease of a replica: the version of its program
	finalizerRecord    = "clusterfx.dev/record"            // which prevents that a record is deleted by mistake
	isSet              = "true"
)

const (
	keyCount    = "shards"   // of the installation
	keyComplete = "complete" // of the installation: all records have been created
	keyReplicas = "replicas" // of the assignment: a line with the name of a replica for each shard
	keyLeader   = "leader"   // of the assignment: the replica that has written it
)

var errForeign = errors.New("the object does not have the label " + label + " of the installation; delete it, or rename the replica") // errForeign: an object with a name of the installation belongs to something else.

const fieldMetadata, fieldVersion = "metadata", "resourceVersion"

type patch map[string]any // patch is a JSON merge patch; nil removes a field.

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func setOrNil(is bool) any {
	if is {
		return isSet
	}
	return nil
}

func recordName(shard int) string { return recordPrefix + "-" + strconv.Itoa(shard) }

func newRecord(shard, count int) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: recordName(shard), Labels: map[string]string{label: labelRecord},
		Annotations: map[string]string{annotationCount: strconv.Itoa(count)}, Finalizers: []string{finalizerRecord},
	}}
}

func heldRecord(shard, count int, r shards.Record) *coordinationv1.Lease {
	l, holder, epoch := newRecord(shard, count), formatHolder(r.Holder), int32(r.Epoch) //nolint:gosec // It was read from such a field.
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions = &holder, &epoch
	return l
}

// wholeRecord makes an object this record, whatever it was.
func wholeRecord(r shards.Record, count int) patch {
	made := newRecord(0, count)
	return patch{
		fieldMetadata: map[string]any{
			fieldVersion: r.Version, "labels": made.Labels, "finalizers": made.Finalizers,
			"annotations": map[string]any{annotationCount: strconv.Itoa(count), annotationWarm: nil, annotationPromised: nil, annotationReleased: nil},
		},
		"spec": map[string]any{"holderIdentity": formatHolder(r.Holder), "leaseTransitions": r.Epoch},
	}
}

func decodeRecord(l *coordinationv1.Lease, count int) (shard int, r shards.Record, err error) {
	number, isRecord := strings.CutPrefix(l.Name, recordPrefix+"-")
	shard, err = strconv.Atoi(number)
	switch {
	case l.Labels[label] != labelRecord:
		return 0, r, errForeign
	case !isRecord || err != nil || shard < 0 || shard >= count || recordName(shard) != l.Name:
		return 0, r, fmt.Errorf("%s is not the name of a record of %d shards", l.Name, count)
	case l.Annotations[annotationCount] != strconv.Itoa(count):
		return 0, r, fmt.Errorf("%w: the record has the annotation %s=%s", ErrCount, annotationCount, l.Annotations[annotationCount])
	}
	r, err = decodeRecordSpec(l)
	return shard, r, err
}

// decodeRecordSpec does not look at the shard.
func decodeRecordSpec(l *coordinationv1.Lease) (r shards.Record, err error) {
	r.Version, r.Promised = l.ResourceVersion, l.Annotations[annotationPromised] == isSet
	if l.Spec.LeaseTransitions != nil {
		r.Epoch = int64(*l.Spec.LeaseTransitions)
	}
	if l.Spec.HolderIdentity != nil {
		if r.Holder, err = parseHolder(*l.Spec.HolderIdentity); err != nil {
			return r, fmt.Errorf("the holder in %s: %w", l.Name, err)
		}
	}
	if r.Warm, err = parseHolder(l.Annotations[annotationWarm]); err != nil {
		return r, fmt.Errorf("the warm replica in %s: %w", l.Name, err)
	}
	if r.Holder != (shards.Holder{}) {
		return r, nil // A replica of an older version leaves the annotation of the last holder.
	}
	if r.Released, err = parseHolder(l.Annotations[annotationReleased]); err != nil {
		return r, fmt.Errorf("the last holder in %s: %w", l.Name, err)
	}
	return r, nil
}

func encodeRecord(r shards.Record) (patch, error) {
	if r.Epoch > math.MaxInt32 || r.Version == "" {
		return nil, fmt.Errorf("a record of epoch %d and version %q cannot be written", r.Epoch, r.Version)
	}
	return patch{
		fieldMetadata: map[string]any{fieldVersion: r.Version, "annotations": map[string]any{
			annotationWarm: orNil(formatHolder(r.Warm)), annotationPromised: setOrNil(r.Promised),
			annotationReleased: orNil(formatHolder(r.Released)),
		}},
		"spec": map[string]any{"holderIdentity": orNil(formatHolder(r.Holder)), "leaseTransitions": r.Epoch},
	}, nil
}

// nil is a missing Lease.
func decodeLease(l *coordinationv1.Lease) (shards.Lease, error) {
	if l == nil {
		return shards.Lease{}, nil
	}
	if l.Labels[label] != labelReplica {
		return shards.Lease{}, fmt.Errorf("the Lease %s: %w", l.Name, errForeign)
	}
	decoded := shards.Lease{
		Version: l.ResourceVersion, Ended: l.Annotations[annotationEnded], Leaving: l.Annotations[annotationLeaving] == isSet,
		Drained: l.Annotations[annotationDrain] == isSet,
	}
	if l.Spec.HolderIdentity != nil {
		decoded.Incarnation = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		decoded.Renewed = l.Spec.RenewTime.Time
	}
	return decoded, nil
}

// labelsOf returns none if they cannot be decoded.
func labelsOf(l *coordinationv1.Lease) map[string]string {
	if l == nil || l.Annotations[annotationLabels] == "" {
		return nil
	}
	decoded, err := labels.ConvertSelectorToLabelsMap(l.Annotations[annotationLabels])
	if err != nil {
		return nil
	}
	return decoded
}

// An empty annotation is missing.
func describe(o *Options) map[string]string {
	return map[string]string{annotationLabels: labels.Set(o.Labels).String(), annotationVersion: o.Version}
}

// newLease does not say that an incarnation has ended.
func newLease(name string, l shards.Lease, annotations map[string]string, seconds int32) *coordinationv1.Lease {
	annotations = maps.Clone(annotations)
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: labelReplica}, Annotations: annotations},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &l.Incarnation, RenewTime: &metav1.MicroTime{Time: l.Renewed}, LeaseDurationSeconds: &seconds,
		},
	}
}

// encodeLease has a time that gives each renewal a version of its own. The administrator's wish stays.
func encodeLease(l shards.Lease) patch { return encodeOwn(l, patch{}) }

// encodeOwn adds annotations that no other replica changes.
func encodeOwn(l shards.Lease, annotations patch) patch {
	annotations[annotationEnded], annotations[annotationLeaving] = orNil(l.Ended), setOrNil(l.Leaving)
	return patch{
		fieldMetadata: map[string]any{fieldVersion: l.Version, "annotations": annotations},
		"spec":        map[string]any{"holderIdentity": orNil(l.Incarnation), "renewTime": metav1.MicroTime{Time: l.Renewed}},
	}
}

type assignment struct {
	names   []string
	leader  string
	version string
}

func decodeAssignment(m *corev1.ConfigMap) assignment {
	if m == nil {
		return assignment{}
	}
	return assignment{names: strings.Split(m.Data[keyReplicas], "\n"), leader: m.Data[keyLeader], version: m.ResourceVersion}
}

func encodeAssignment(a assignment) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: assignmentName, Labels: map[string]string{label: labelAssignment}},
		Data:       map[string]string{keyReplicas: strings.Join(a.names, "\n"), keyLeader: a.leader},
	}
}
