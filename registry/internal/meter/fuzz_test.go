// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// The properties of a meter, for any input: it does not panic, the size of the pieces has no effect on its charge, and
// it charges at least nine tenths of the memory that a decoder keeps. TestJSONMeter_KnowsWhatTheDecoderKeeps and
// TestProtobufMeter_KnowsWhatTheDecoderTakes have such bounds for large responses. "make fuzz" runs these targets.

// maxFuzzed limits an input, in bytes. Larger inputs find no other errors and take longer.
const maxFuzzed = 4096

// sumOf returns the charge of a meter after it has read a text in pieces of n bytes, and whether it has refused the
// text, and because of its size.
func sumOf(m Meter, sum *int64, text []byte, n int) (charged int64, refused, tooLarge bool) {
	for len(text) > 0 {
		piece := text[:min(n, len(text))]
		if err := m.Read(piece); err != nil {
			return 0, true, errors.Is(err, ErrTooLarge)
		}
		text = text[len(piece):]
	}
	return *sum, false, false
}

// checkPieces checks that the size of the pieces has no effect, and returns the charge and whether the text was refused.
func checkPieces(t *testing.T, text []byte, n int, newMeter func() (Meter, *int64)) (charged int64, refused bool) {
	t.Helper()
	m, sum := newMeter()
	charged, refused, tooLarge := sumOf(m, sum, text, len(text))
	m, sum = newMeter()
	again, alsoRefused, alsoTooLarge := sumOf(m, sum, text, n)
	if again != charged || alsoRefused != refused || alsoTooLarge != tooLarge {
		t.Errorf("%q in pieces of %d: charged %d (refused %t, too large %t), whole %d (%t, %t)",
			text, n, again, alsoRefused, alsoTooLarge, charged, refused, tooLarge)
	}
	return charged, refused
}

// checkCharge checks a charge for the object that a decoder has made of a text. empty is the object of an empty text.
func checkCharge(t *testing.T, text []byte, charged int64, made, empty any) {
	t.Helper()
	charged += ReadingCost * int64(len(text))
	if kept := Sizeof(made) - Sizeof(empty); charged < kept*9/10 {
		t.Errorf("%q: charged %d bytes, but %T keeps %d", text, charged, made, kept)
	}
}

// safeDecode calls a third-party decoder, and reports whether it accepted the input.
func safeDecode(decode func() error) bool { return panics.Catch(decode) == nil }

func FuzzJSONMeter(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "1e9", `{"items":[{},{}]}`, `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"a"}]}}`,
		`{"x":[1,[],{"a":{"b":null}}],"y":"\\\"{[,"}`, `{"spec":{"overhead":{"cpu":"1","memory":"1e3Gi"}}}`, `{"data":{"a":"","b":"c"}}`,
		`{"binaryData":{"a":"AAAA"}}`, `{"type":"ADDED","object":{"kind":"Pod"}}` + "\n" + `{"type":"BOOKMARK"}`, strings.Repeat(`{"a":[`, 20),
	} {
		f.Add([]byte(seed), uint8(3), false)
		f.Add([]byte(seed), uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, n uint8, stream bool) {
		if len(text) > maxFuzzed {
			t.Skip()
		}
		charged, refused := checkPieces(t, text, int(n)+1, func() (Meter, *int64) {
			m := &jsonMeter{bill: noBill, stream: stream}
			return m, &m.sum
		})
		if refused || stream {
			return
		}
		untyped, pod, configMap := map[string]any{}, &corev1.Pod{}, &corev1.ConfigMap{}
		if safeDecode(func() error { return json.Unmarshal(text, &untyped) }) {
			checkCharge(t, text, charged, untyped, map[string]any{})
		}
		if safeDecode(func() error { return json.Unmarshal(text, pod) }) {
			checkCharge(t, text, charged, pod, &corev1.Pod{})
		}
		if safeDecode(func() error { return json.Unmarshal(text, configMap) }) {
			checkCharge(t, text, charged, configMap, &corev1.ConfigMap{})
		}
	})
}

func FuzzProtobufMeter(f *testing.F) {
	for _, seed := range [][]byte{
		nil, []byte("k8s\x00"), encode(f, someConfigMaps(2)), encode(f, somePods(2)),
		envelopeOf("v1", "PodList", strings.Repeat("\x12\x00", 20)),
		envelopeOf("v1", "Pod", field(2, strings.Repeat("\x12\x00", 20))),
		envelopeOf("v1", "Pod", field(2, strings.Repeat("\x12\x02\x7a\x00", 20))),
		envelopeOf("v1", "Pod", field(2, field(14, field(4, strings.Repeat("\x01", 40))))),
		envelopeOf("v1", "Secret", manyEntries(10)),
		envelopeOf("v1", "Nothing", "\x12\x00"),
	} {
		f.Add(seed, uint8(3), false)
		f.Add(append([]byte{0, 0, 0, byte(len(seed))}, seed...), uint8(1), true)
	}
	decoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	types := NewSchemas(scheme.Scheme)
	f.Fuzz(func(t *testing.T, data []byte, n uint8, stream bool) {
		if len(data) > maxFuzzed {
			t.Skip()
		}
		charged, refused := checkPieces(t, data, int(n)+1, func() (Meter, *int64) {
			m := newProtobufMeter(noBill, types, stream)
			return m, &m.sum
		})
		if refused || stream {
			return
		}
		var made runtime.Object
		decoded := safeDecode(func() (err error) {
			made, err = runtime.Decode(decoder, data)
			return err
		})
		if !decoded {
			return
		}
		empty, err := scheme.Scheme.New(made.GetObjectKind().GroupVersionKind())
		if err != nil {
			return // an Unknown
		}
		checkCharge(t, data, charged, made, empty)
	})
}
