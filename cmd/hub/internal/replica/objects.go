// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

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

// Labels of the Lease of a replica, for people.
const (
	labelPod     = "clusterfx.dev/pod"     // the Pod
	labelShards  = "clusterfx.dev/shards"  // how many shards it has
	labelVersion = "clusterfx.dev/version" // the version of its program
)

// An annotation that is not set is missing.
const (
	annotationCount    = "clusterfx.dev/shards"         // of a record: the number of shards with Clusters
	annotationWarm     = "clusterfx.dev/warm"           // of a record: the Lease of a replica
	annotationPromised = "clusterfx.dev/promised"       // of a record
	annotationLeaving  = "clusterfx.dev/leaving"        // of the Lease of a replica
	annotationEnded    = "clusterfx.dev/ended"          // of the Lease of a replica without a holder: that was not an administrator
	annotationLabels   = "clusterfx.dev/replica-labels" // of the Lease of a replica: key=value, separated by commas
	annotationTunnel   = "clusterfx.dev/tunnel"         // of the Lease of a replica: see Replica.Tunnels
	finalizerRecord    = "clusterfx.dev/record"         // which prevents that a record is deleted by mistake
	isSet              = "true"
)

const (
	keyCount    = "shards"   // of the installation
	keyProtocol = "protocol" // of the installation
	keyComplete = "complete" // of the installation: all records have been created
	keyLeases   = "leases"   // of the assignment: a line with the name of the Lease of a replica for each shard
	keyAssigner = "assigner" // of the assignment: the Lease of the replica that has written it
	// prefixDrained and the name of a Pod are the key of the wish of an administrator that the Pod has no shards.
	prefixDrained = "drained."
)

const protocol = "1" // protocol of the objects. Replicas of two protocols must not share an installation.

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
	l, holder, epoch := newRecord(shard, count), r.Holder, int32(r.Epoch) //nolint:gosec // It was read from such a field.
	now := metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.AcquireTime = &holder, &epoch, &now
	return l
}

// wholeRecord makes an object this record, whatever it was.
func wholeRecord(r shards.Record, count int) patch {
	made := newRecord(0, count)
	return patch{
		fieldMetadata: map[string]any{
			fieldVersion: r.Version, "labels": made.Labels, "finalizers": made.Finalizers,
			"annotations": map[string]any{annotationCount: strconv.Itoa(count), annotationWarm: nil, annotationPromised: nil},
		},
		"spec": map[string]any{"holderIdentity": r.Holder, "leaseTransitions": r.Epoch},
	}
}

func decodeRecord(l *coordinationv1.Lease, count int) (shard int, r shards.Record, err error) {
	number, isRecord := strings.CutPrefix(l.Name, recordPrefix+"-")
	shard, err = strconv.Atoi(number)
	switch {
	case l.Labels[label] != labelRecord:
		return 0, r, errForeign
	case !isRecord || err != nil || shard < 0 || shard > count || recordName(shard) != l.Name:
		return 0, r, fmt.Errorf("%s is not the name of a record of %d shards", l.Name, count)
	case l.Annotations[annotationCount] != strconv.Itoa(count):
		return 0, r, fmt.Errorf("%w: the record has the annotation %s=%s", ErrCount, annotationCount, l.Annotations[annotationCount])
	}
	r = recordOf(l)
	for _, name := range []string{r.Holder, r.Warm} {
		if name != "" && !incarnation.MatchString(name) {
			return 0, r, fmt.Errorf("%q in the record is not the name of the Lease of a replica", name)
		}
	}
	return shard, r, nil
}

var incarnation = regexp.MustCompile(`^[a-z0-9][-a-z0-9]*-[0-9a-f]{12}$`) // incarnation has the last group of a UUID.

func recordOf(l *coordinationv1.Lease) shards.Record {
	r := shards.Record{Version: l.ResourceVersion, Warm: l.Annotations[annotationWarm], Promised: l.Annotations[annotationPromised] == isSet}
	if l.Spec.LeaseTransitions != nil {
		r.Epoch = int64(*l.Spec.LeaseTransitions)
	}
	if l.Spec.HolderIdentity != nil {
		r.Holder = *l.Spec.HolderIdentity
	}
	return r
}

// encodeRecord of a record that has another holder says since when.
func encodeRecord(r shards.Record, changesHolder bool) (patch, error) {
	if r.Epoch > math.MaxInt32 || r.Version == "" {
		return nil, fmt.Errorf("a record of epoch %d and version %q cannot be written", r.Epoch, r.Version)
	}
	spec := map[string]any{"holderIdentity": orNil(r.Holder), "leaseTransitions": r.Epoch}
	if changesHolder {
		spec["acquireTime"] = metav1.NowMicro()
	}
	return patch{
		fieldMetadata: map[string]any{fieldVersion: r.Version, "annotations": map[string]any{
			annotationWarm: orNil(r.Warm), annotationPromised: setOrNil(r.Promised),
		}},
		"spec": spec,
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
		UID: string(l.UID), Version: l.ResourceVersion,
		Held: l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == l.Name, Leaving: l.Annotations[annotationLeaving] == isSet,
	}
	decoded.Ended = !decoded.Held && l.Annotations[annotationEnded] == isSet
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

var notInLabels = regexp.MustCompile(`[^-A-Za-z0-9_.]+`)

// describe returns the labels and the annotations of the own Lease, for people and for pins.
func describe(o *Options, held int) (forPeople, annotations map[string]any) {
	version := strings.Trim(notInLabels.ReplaceAllString(o.Version, "-"), "-._")
	forPeople = map[string]any{label: labelReplica, labelPod: o.Pod, labelShards: strconv.Itoa(held), labelVersion: orNil(version)}
	return forPeople, map[string]any{annotationLabels: orNil(labels.Set(o.Labels).String()), annotationTunnel: orNil(o.Tunnel)}
}

// newLease is a claim.
func newLease(name string, o *Options, renewed time.Time) *coordinationv1.Lease {
	seconds, now := int32(max(o.Timing.Duration.Seconds(), 1)), metav1.MicroTime{Time: renewed}
	forPeople, annotations := describe(o, 0)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: texts(forPeople), Annotations: texts(annotations)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
}

// texts leaves out what is not set.
func texts(values map[string]any) map[string]string {
	set := map[string]string{}
	for key, value := range values {
		if text, isSet := value.(string); isSet {
			set[key] = text
		}
	}
	return set
}

// encodeLease has a time that gives each renewal a version of its own.
func encodeLease(name string, l shards.Lease) patch {
	holder := ""
	if l.Held {
		holder = name
	}
	return patch{
		fieldMetadata: map[string]any{fieldVersion: l.Version, "annotations": map[string]any{
			annotationEnded: setOrNil(l.Ended), annotationLeaving: setOrNil(l.Leaving),
		}},
		"spec": map[string]any{"holderIdentity": orNil(holder), "renewTime": metav1.MicroTime{Time: l.Renewed}},
	}
}

type assignment struct {
	names    []string
	assigner string
	drained  map[string]bool // Pods
	version  string
}

func decodeAssignment(m *corev1.ConfigMap) assignment {
	a := assignment{drained: map[string]bool{}}
	if m == nil {
		return a
	}
	a.names, a.assigner, a.version = strings.Split(m.Data[keyLeases], "\n"), m.Data[keyAssigner], m.ResourceVersion
	for key := range m.Data {
		if pod, isDrain := strings.CutPrefix(key, prefixDrained); isDrain {
			a.drained[pod] = true
		}
	}
	return a
}

// encodeAssignment leaves the wishes of administrators in an object, and writes them into a new one.
func encodeAssignment(a assignment) *corev1.ConfigMap {
	data := map[string]string{keyLeases: strings.Join(a.names, "\n"), keyAssigner: a.assigner}
	if a.version == "" {
		for pod := range a.drained {
			data[prefixDrained+pod] = isSet
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: assignmentName, Labels: map[string]string{label: labelAssignment}}, Data: data,
	}
}
