// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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

func recordName(shard int) string { return recordPrefix + "-" + strconv.Itoa(shard) }

// newRecord is a record in a new object.
func newRecord(shard, count int, r shards.Record) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: recordName(shard)}}
	setRecord(l, count, r)
	return l
}

// setRecord makes an object a record, whatever it was. One that gets another holder says since when.
func setRecord(l *coordinationv1.Lease, count int, r shards.Record) {
	set(&l.Labels, map[string]string{label: labelRecord})
	set(&l.Annotations, map[string]string{
		annotationCount: strconv.Itoa(count), annotationWarm: r.Warm, annotationPromised: textOf(r.Promised),
	})
	if l.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(l, finalizerRecord)
	}
	if r.Holder != recordOf(l).Holder {
		l.Spec.AcquireTime = new(metav1.NowMicro())
	}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions = orNil(r.Holder), new(int32(r.Epoch)) //nolint:gosec // It was read from such a field.
}

// set changes labels or annotations. It removes those that have no text.
func set(texts *map[string]string, changes map[string]string) {
	if *texts == nil {
		*texts = map[string]string{}
	}
	for key, text := range changes {
		if text == "" {
			delete(*texts, key)
		} else {
			(*texts)[key] = text
		}
	}
}

func textOf(is bool) string {
	if is {
		return isSet
	}
	return ""
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
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
	decoded, err := labels.ConvertSelectorToLabelsMap(l.Annotations[annotationLabels])
	if err != nil {
		return nil
	}
	return decoded
}

var notInLabels = regexp.MustCompile(`[^-A-Za-z0-9_.]+`)

// describe makes an object the own Lease, for people and for pins.
func describe(l *coordinationv1.Lease, o *Options, held int) {
	version := strings.Trim(notInLabels.ReplaceAllString(o.Version, "-"), "-._")
	set(&l.Labels, map[string]string{label: labelReplica, labelPod: o.Pod, labelShards: strconv.Itoa(held), labelVersion: version})
	set(&l.Annotations, map[string]string{annotationLabels: labels.Set(o.Labels).String(), annotationTunnel: o.Tunnel})
	if l.Spec.AcquireTime == nil {
		l.Spec.AcquireTime = l.Spec.RenewTime
	}
	l.Spec.LeaseDurationSeconds = new(int32(max(o.Timing.Duration.Seconds(), 1)))
}

// setLease has a time that gives each renewal a version of its own.
func setLease(l *coordinationv1.Lease, to shards.Lease) {
	set(&l.Annotations, map[string]string{annotationEnded: textOf(to.Ended), annotationLeaving: textOf(to.Leaving)})
	l.Spec.HolderIdentity, l.Spec.RenewTime = nil, &metav1.MicroTime{Time: to.Renewed}
	if to.Held {
		l.Spec.HolderIdentity = &l.Name
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
