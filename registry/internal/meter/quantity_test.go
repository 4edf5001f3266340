// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var hugeNumbers = []string{
	"1e-2000000000", "1E-20000000", "-1.5e-20000", "+0.1e-0020000", strings.Repeat("0", 100) + "1e-20000000",
	"12345678901234567890123e20000000", " 1e-20000000", strings.Repeat("9", maxDigits+1),
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, text := range hugeNumbers {
		var n number
		for i := range text {
			n.add([]byte(text[i : i+1]))
		}
		if !n.isHuge() {
			t.Errorf("%.40s is not refused", text)
		}
	}
	for _, text := range []string{
		"", "0", "100m", "1.5Gi", "1e3", "1e-9", "123e4567", "1e2000000000", "12345678901234567890", "a1e-20000", "1e-20000x",
		"2026-11-21", "e-20000", "1e-x20000", "deadbeef", "8a3e-45677-1", strings.Repeat("9", 1000),
	} {
		var n number
		n.add([]byte(text))
		if n.isHuge() {
			t.Errorf("%.40s is refused", text)
		}
		if _, err := resource.ParseQuantity(text); err != nil {
			continue // only the time of the call matters
		}
	}
}

// The meters refuse oversized numbers in every form of a response.
func TestMeters_RefuseHugeNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range hugeNumbers {
		limits := field(1, text)
		pod := field(2, field(32, field(1, "cpu")+field(2, limits)))
		if err := meterOf(1<<40, false).Read(envelopeOf("v1", "Pod", pod)); !errors.Is(err, errHuge) {
			t.Errorf("protobuf with %.40s: got %v, want errHuge", text, err)
		}
		for _, body := range []string{`{"cpu":"` + text + `"}`, `{"cpu":` + text + `}`, `[` + text + `]`, `[1,` + text + ` ]`, `{"cpu":"` + text} {
			m := &jsonMeter{bill: noBill}
			var err error
			for i := range body {
				if err == nil {
					err = m.Read([]byte(body[i : i+1]))
				}
			}
			if complete := strings.ContainsAny(body[len(body)-1:], "]}"); complete != errors.Is(err, errHuge) {
				t.Errorf("%.60s: got %v", body, err)
			}
		}
	}
	pod := &corev1.Pod{}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1.5Gi")}
	if err := meterOf(1<<40, false).Read(encode(t, pod)); err != nil {
		t.Errorf("ordinary Pod: got %v", err)
	}
}
