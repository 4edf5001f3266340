// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"pgregory.net/rapid"
)

// pieces feeds a meter with a text in pieces of random sizes.
func pieces(t *rapid.T, m meter, text []byte) error {
	for len(text) > 0 {
		n := rapid.IntRange(1, min(len(text), 40)).Draw(t, "piece")
		if err := m.read(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// anyJSON draws a value, and counts the objects in lists in it.
func anyJSON(t *rapid.T, depth int, inList bool, elements *int64) any {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if depth == 0 {
		kind = min(kind, 1)
	}
	switch kind {
	case 0:
		return rapid.Int().Draw(t, "number")
	case 1:
		return rapid.StringMatching(`[a-z{}\[\]"\\,:]{0,8}`).Draw(t, "text")
	case 2, 3:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			list = append(list, anyJSON(t, depth-1, true, elements))
		}
		return list
	}
	if inList {
		*elements++
	}
	object := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		object[fmt.Sprint(rapid.StringMatching(`[a-z{}\[\]"\\]{0,4}`).Draw(t, "name"), i)] = anyJSON(t, depth-1, false, elements)
	}
	return object
}

// Whatever is in strings, and wherever the pieces begin and end, the meter counts the objects in lists.
func TestJSONMeter_CountsObjectsInLists(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var want int64
		text, err := json.Marshal(map[string]any{"x": anyJSON(t, 5, false, &want)})
		if err != nil {
			t.Fatal(err)
		}
		m := &jsonMeter{maxItems: math.MaxInt64}
		if err := pieces(t, m, text); err != nil {
			t.Fatal(err)
		}
		if m.elements != want || m.depth != 0 || m.quoted || m.size != int64(len(text)) {
			t.Fatalf("%s: meter = %+v, want %d objects in lists", text, m, want)
		}
	})
}

func TestJSONMeter_BoundsEachEventByItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &jsonMeter{stream: true, maxItems: 3}
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			event := `{"items":[{},{},{}],"text":"` + rapid.StringMatching(`[a-z{}]{0,8}`).Draw(t, "text") + `"}` + "\n"
			if err := pieces(t, m, []byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		if err := pieces(t, m, []byte(`{"items":[{},{},{},{}]}`)); !errors.Is(err, errBodyTooLarge) {
			t.Fatalf("err = %v, want errBodyTooLarge", err)
		}
	})
}

func TestJSONMeter_Refuses(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		meter      jsonMeter
		head, part string
		want       int // parts until it is too much
	}{
		"an event without an end":   {jsonMeter{stream: true}, `{"x":"`, text, maxEvent >> 20},
		"spaces without an end":     {jsonMeter{stream: true}, "", strings.Repeat(" ", 1<<20), maxEvent>>20 + 1},
		"lists in lists":            {jsonMeter{}, "", "[", maxNesting + 1},
		"objects in objects":        {jsonMeter{}, "", `{"x":`, maxNesting + 1},
		"too many items":            {jsonMeter{maxItems: 10}, `{"items":[`, "{},", 11},
		"too many objects in lists": {jsonMeter{maxItems: 10}, `{"items":[{"x":[`, "{},", maxElements},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.meter.read([]byte(c.head))
			n := 0
			for ; err == nil && n <= c.want; n++ {
				err = c.meter.read([]byte(c.part))
			}
			if !errors.Is(err, errBodyTooLarge) || n != c.want {
				t.Errorf("%v after %d parts, want errBodyTooLarge after %d", err, n, c.want)
			}
		})
	}
}

// configMaps returns a list as API servers send it.
func configMaps(t testing.TB, n int) []byte {
	t.Helper()
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}}
	list.ResourceVersion = "1"
	for i := range n {
		list.Items = append(list.Items, corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"x": strings.Repeat("y", i)},
		})
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	data, err := runtime.Encode(protobuf.NewSerializer(scheme, scheme), list)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestProtobufMeter(t *testing.T) {
	t.Parallel()
	const items = 200
	data := configMaps(t, items)
	rapid.Check(t, func(t *rapid.T) {
		m := &protobufMeter{maxItems: items}
		if err := pieces(t, m, data); err != nil || m.items != items {
			t.Fatalf("%v, %d items; want %d", err, m.items, items)
		}
		if err := pieces(t, &protobufMeter{maxItems: items - 1}, data); !errors.Is(err, errBodyTooLarge) {
			t.Fatalf("err = %v, want errBodyTooLarge", err)
		}
	})
}

// A second object in the same message replaces the first, and what cannot be understood is refused, so
// that nothing is hidden from the meter that the decoder finds.
func TestProtobufMeter_IsNotFooled(t *testing.T) {
	t.Parallel()
	const prefix, empty = "k8s\x00", "\x12\x00"
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"an object without items, and one with": {prefix + empty + "\x12\x06" + strings.Repeat(empty, 3), errBodyTooLarge},
		"items in two objects":                  {prefix + "\x12\x04" + strings.Repeat(empty, 2) + "\x12\x04" + strings.Repeat(empty, 2), errBodyTooLarge},
		"a group":                               {prefix + "\x0b", errProtobuf},
		"a number without an end":               {prefix + strings.Repeat("\xff", 20), errProtobuf},
		"field zero":                            {prefix + "\x02", errProtobuf},
		"an item of 2 GiB":                      {prefix + "\x12\x08\x12\xff\xff\xff\xff\x07", errBodyTooLarge},
		"other fields":                          {prefix + "\x08\x01\x0d1234\x0912345678\x1a\x01x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &protobufMeter{maxItems: 2}
			if err := m.read([]byte(c.text)); !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
		})
	}
}

func TestEventMeter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &eventMeter{}
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			n := rapid.IntRange(0, 50).Draw(t, "length")
			if err := pieces(t, m, []byte("\x00\x00\x00"+string(rune(n))+strings.Repeat("x", n))); err != nil {
				t.Fatal(err)
			}
		}
		if err := pieces(t, m, []byte("\x01\x00\x00\x01")); !errors.Is(err, errBodyTooLarge) {
			t.Fatalf("err = %v, want errBodyTooLarge", err)
		}
	})
}

func BenchmarkMeter(b *testing.B) {
	pod := `{"metadata":{"name":"a-pod","namespace":"default","uid":"0123456789-0123","managedFields":[{"manager":"kubelet",` +
		`"fieldsV1":{"f:x":{"f:y":{}}}}]},"spec":{"containers":[{"name":"a","image":"registry/abc/def:1"}]}},`
	for name, body := range map[string]struct {
		meter func() meter
		data  []byte
	}{
		"json":     {func() meter { return &jsonMeter{maxItems: maxItems} }, []byte(`{"items":[` + strings.Repeat(pod, 4000) + `{}]}`)},
		"protobuf": {func() meter { return &protobufMeter{maxItems: maxItems} }, configMaps(b, 1000)},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body.data)))
			for b.Loop() {
				if err := body.meter().read(body.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
