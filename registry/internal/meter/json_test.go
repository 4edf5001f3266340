// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// The meter charges at least nine tenths of the memory that decoding keeps. It does not know the types, so it may
// charge several times as much.
//
//nolint:paralleltest // It measures what is allocated.
func TestJSONMeter_KnowsWhatTheDecoderKeeps(t *testing.T) {
	const n = 20_000
	list := func(part string) string { return "[" + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + "]" }
	fields := func(value string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + number36(i) + `":` + value)
		}
		return "{" + b.String()[1:] + "}"
	}
	for name, c := range map[string]struct {
		text string
		into func() any
	}{
		"empty Pods":        {`{"items":` + list(`{}`) + `}`, func() any { return &corev1.PodList{} }},
		"empty containers":  {`{"spec":{"containers":` + list(`{}`) + `}}`, func() any { return &corev1.Pod{} }},
		"quantities":        {`{"spec":{"overhead":` + fields(`"1"`) + `}}`, func() any { return &corev1.Pod{} }},
		"data":              {`{"data":` + fields(`""`) + `}`, func() any { return &corev1.ConfigMap{} }},
		"binary data":       {`{"binaryData":` + fields(`""`) + `}`, func() any { return &corev1.ConfigMap{} }},
		"untyped fields":    {`{"x":` + fields(`1`) + `}`, func() any { return &unstructured.Unstructured{} }},
		"untyped objects":   {`{"x":` + fields(`{"a":1}`) + `}`, func() any { return &unstructured.Unstructured{} }},
		"untyped empties":   {`{"x":` + fields(`{}`) + `}`, func() any { return &unstructured.Unstructured{} }},
		"untyped numbers":   {`{"x":` + list(`1`) + `}`, func() any { return &unstructured.Unstructured{} }},
		"untyped lists":     {`{"x":` + list(`[]`) + `}`, func() any { return &unstructured.Unstructured{} }},
		"untyped in a list": {`{"x":` + list(`{"a":{"b":1}}`) + `}`, func() any { return &unstructured.Unstructured{} }},
	} {
		t.Run(name, func(t *testing.T) {
			m := &jsonMeter{bill: noBill}
			must(t, m.Read([]byte(c.text)))
			into := c.into()
			took := allocated(func() {
				var err error
				if u, ok := into.(*unstructured.Unstructured); ok {
					u.Object = map[string]any{}
					err = json.Unmarshal([]byte(c.text), &u.Object)
				} else {
					err = json.Unmarshal([]byte(c.text), into)
				}
				must(t, err)
			})
			kept := Sizeof(into)
			charged := m.sum + ReadingCost*int64(len(c.text))
			t.Logf("%d KiB: charged %d KiB, decoding allocates %d KiB, of which %d KiB are kept",
				len(c.text)>>10, charged>>10, took>>10, kept>>10)
			if charged < kept*9/10 {
				t.Errorf("charged %d bytes, but %d are kept", charged, kept)
			}
		})
	}
}

func number36(i int) string {
	const digits = "abcdefghijklmnopqrstuvwxyz"
	var b []byte
	for ; ; i /= len(digits) {
		b = append(b, digits[i%len(digits)])
		if i < len(digits) {
			return string(b)
		}
	}
}
