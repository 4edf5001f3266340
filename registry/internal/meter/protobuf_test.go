// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func encode(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	data, err := runtime.Encode(metaSerializer(), obj)
	if runtime.IsNotRegisteredError(err) {
		data, err = runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), obj)
	}
	must(t, err)
	return data
}

func decode(t testing.TB, data []byte) runtime.Object {
	t.Helper()
	obj, err := runtime.Decode(metaSerializer(), data)
	if runtime.IsNotRegisteredError(err) {
		obj, err = runtime.Decode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), data)
	}
	must(t, err)
	return obj
}

func metaSerializer() runtime.Serializer {
	all := NewSchemas(nil).schemes
	meta := all[len(all)-1]
	return protobuf.NewSerializer(meta, meta)
}

func someConfigMaps(n int) *corev1.ConfigMapList {
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}}
	list.ResourceVersion = "1"
	for i := range n {
		list.Items = append(list.Items, corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"x": strings.Repeat("y", i)},
		})
	}
	return list
}

func somePods(n int) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	seconds, yes := int64(30), true
	for i := range n {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("pod-", i), Labels: map[string]string{"app": "web", "tier": "front"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 800))}},
		}}
		pod.Spec.TerminationGracePeriodSeconds = &seconds
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1, 2, 3}}
		pod.Spec.Containers = []corev1.Container{{
			Name: "web", Image: "registry.example/web:1.2.3", Args: []string{"--verbose", "--port=80"},
			Env:       []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.Now()}}
		list.Items = append(list.Items, pod)
	}
	return list
}

func meterOf(limit int64, stream bool) *protobufMeter {
	return newProtobufMeter(bill{limit: limit}, NewSchemas(scheme.Scheme), stream)
}

// allocated returns the number of bytes that a function allocates.
func allocated(f func()) int64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// The meter charges at least the memory that the decoded object keeps, and at most four times the memory that decoding
// allocates, because lists grow.
//
//nolint:paralleltest // It measures what is allocated.
func TestProtobufMeter_KnowsWhatTheDecoderTakes(t *testing.T) {
	empty := func(kind, part string) []byte {
		body := strings.Repeat(part, 20_000)
		return envelopeOf("v1", kind, body)
	}
	for name, data := range map[string][]byte{
		"ConfigMaps":         encode(t, someConfigMaps(1500)),
		"Pods":               encode(t, somePods(3000)),
		"empty Pods":         empty("PodList", "\x12\x00"),
		"empty ConfigMaps":   empty("ConfigMapList", "\x12\x00"),
		"empty containers":   envelopeOf("v1", "Pod", field(2, strings.Repeat("\x12\x00", 20_000))),
		"empty owners":       envelopeOf("v1", "Pod", field(1, strings.Repeat("\x6a\x00", 20_000))),
		"empty volumes":      envelopeOf("v1", "Pod", field(2, strings.Repeat("\x0a\x00", 20_000))),
		"pointers":           envelopeOf("v1", "Pod", field(2, strings.Repeat("\x12\x02\x7a\x00", 20_000))),
		"packed numbers":     envelopeOf("v1", "Pod", field(2, field(14, field(4, strings.Repeat("\x01", 40_000))))),
		"numbers":            envelopeOf("v1", "Pod", field(2, field(14, strings.Repeat("\x20\x01", 40_000)))),
		"arguments":          envelopeOf("v1", "Pod", field(2, field(2, strings.Repeat("\x22\x01x", 20_000)))),
		"a Secret's entries": envelopeOf("v1", "Secret", manyEntries(10_000)),
	} {
		t.Run(name, func(t *testing.T) {
			m := meterOf(1<<62, false)
			must(t, m.Read(data))
			var obj runtime.Object
			took := allocated(func() { obj = decode(t, data) })
			kept := Sizeof(obj)
			t.Logf("%d bytes: charged %d KiB, decoding allocates %d KiB, of which %d KiB are kept",
				len(data), m.sum>>10, took>>10, kept>>10)
			if m.sum < kept {
				t.Errorf("charged %d bytes, but %d are kept", m.sum, kept)
			}
			if m.sum > 4*took {
				t.Errorf("charged %d bytes, but decoding allocates %d", m.sum, took)
			}
		})
	}
}

// field returns a field that is a message, or a string.
func field(number int, content string) string {
	b := binary.AppendUvarint(nil, uint64(number)<<3|wireBytes) //nolint:gosec // Small.
	b = binary.AppendUvarint(b, uint64(len(content)))
	return string(b) + content
}

func manyEntries(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(field(2, field(1, fmt.Sprint(i))+field(2, "")))
	}
	return b.String()
}

func envelopeOf(version, kind, object string) []byte {
	return []byte("k8s\x00" + field(1, field(1, version)+field(2, kind)) + field(2, object))
}

func TestProtobufMeter_ChargesTheSameInPieces(t *testing.T) {
	t.Parallel()
	data := encode(t, somePods(20))
	whole := meterOf(1<<62, false)
	must(t, whole.Read(data))
	rapid.Check(t, func(t *rapid.T) {
		m := meterOf(whole.sum, false)
		if err := pieces(t, m, data); err != nil || m.sum != whole.sum {
			t.Fatalf("got error %v, charged %d, want %d", err, m.sum, whole.sum)
		}
		if err := pieces(t, meterOf(whole.sum-1, false), data); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got error %v, want ErrTooLarge", err)
		}
	})
}

// Bytes that the decoder treats as an object are an object to the meter, so that nothing is hidden from it.
func TestProtobufMeter_IsNotFooled(t *testing.T) {
	t.Parallel()
	const prefix = "k8s\x00"
	three := strings.Repeat("\x12\x00", 3)
	kindOf := field(1, field(1, "v1")+field(2, "PodList"))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"an empty list":             {prefix + kindOf + field(2, ""), nil},
		"three items":               {prefix + kindOf + field(2, three), ErrTooLarge},
		"items in two objects":      {prefix + kindOf + field(2, "\x12\x00") + field(2, three[2:]), ErrTooLarge},
		"items behind other field":  {prefix + kindOf + field(2, field(1, field(2, "1"))+three), ErrTooLarge},
		"the kind comes later":      {prefix + field(2, "") + kindOf, errProtobuf},
		"another kind comes later":  {prefix + kindOf + field(2, "") + kindOf, errProtobuf},
		"no kind":                   {prefix + field(2, three), errProtobuf},
		"the kind is taken back":    {prefix + kindOf + field(1, field(2, "")) + field(2, three), errProtobuf},
		"a kind nobody knows":       {prefix + field(1, field(1, "v1")+field(2, "Pot")) + field(2, three), errProtobuf},
		"a kind of 10 kB":           {prefix + field(1, field(2, strings.Repeat("x", 10_000))), errProtobuf},
		"an item that goes on":      {prefix + kindOf + field(2, "\x12\x05x"), errProtobuf},
		"a group":                   {prefix + "\x0b", errProtobuf},
		"a number without an end":   {prefix + strings.Repeat("\xff", 20), errProtobuf},
		"field zero":                {prefix + "\x02", errProtobuf},
		"an item of 2 GiB":          {prefix + kindOf + "\x12\x08\x12\xff\xff\xff\xff\x07", errProtobuf},
		"an object of 2 GiB":        {prefix + kindOf + "\x12\xff\xff\xff\xff\x07\x12\xff\xff\xff\xff\x06", nil},
		"a field that decoders cut": {prefix + kindOf + field(2, string(binary.AppendUvarint(nil, (2+1<<32)<<3|wireBytes))+"\x00"), errProtobuf},
		"a tag without a value":     {prefix + kindOf + field(2, "\x12"), errProtobuf},
		"half a tag":                {prefix + kindOf + field(2, "\x92"), errProtobuf},
		"half a number":             {prefix + kindOf + field(2, "\x09123") + strings.Repeat("\x00", 9), errProtobuf},
		"other fields":              {prefix + "\x18\x01\x1d1234\x1912345678\x1a\x01x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meterOf(Sizeof(corev1.PodList{})+3*Growth*Sizeof(corev1.Pod{})-1, false)
			testkit.ErrorIs(t, m.Read([]byte(c.text)), c.want)
		})
	}
}

// Endlessly nested objects would exhaust the decoder's stack, which ends the process, so the meter refuses them.
func TestProtobufMeter_BoundsNesting(t *testing.T) {
	t.Parallel()
	s := &messageType{fields: map[uint64]fieldType{}}
	s.fields[1] = fieldType{message: s}
	m := &protobufMeter{bill: noBill}
	m.within = append(m.within, message{s, endless})
	text := ""
	for range maxNesting + 10 {
		text = field(1, text)
	}
	testkit.ErrorIs(t, m.Read([]byte(text)), ErrTooLarge)
}

// event returns an event of a watch as API servers send it.
func event(t testing.TB, obj runtime.Object) []byte {
	t.Helper()
	raw := field(1, "ADDED") + field(2, field(1, string(encode(t, obj))))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...) //nolint:gosec // Small.
}

// The frame that event returns equals the frame that API servers send.
func TestEvent(t *testing.T) {
	t.Parallel()
	pod := &somePods(1).Items[0]
	want := &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: encode(t, pod)}}
	data, err := want.Marshal()
	must(t, err)
	if got := event(t, pod)[4:]; !bytes.Equal(got, data) {
		t.Errorf("got event %q, want %q", got, data)
	}
}

func TestProtobufMeter_BoundsEachEventByItself(t *testing.T) {
	t.Parallel()
	maps := someConfigMaps(50).Items
	for i := range maps {
		maps[i].APIVersion, maps[i].Kind = "v1", "ConfigMap"
	}
	one, large := event(t, &maps[4]), event(t, &maps[49])
	single := meterOf(1<<62, true)
	if err := single.Read(one); err != nil || single.sum < 100 {
		t.Fatalf("got error %v, charged %d", err, single.sum)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := meterOf(single.sum, true)
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			must(t, pieces(t, m, one))
		}
		if err := pieces(t, m, large); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got error %v, want ErrTooLarge", err)
		}
		if err := pieces(t, meterOf(1<<62, true), []byte("\x01\x00\x00\x01")); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got error %v, want ErrTooLarge", err)
		}
	})
}
