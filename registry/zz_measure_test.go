package registry

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func vint(n int) string {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}
func field(tag byte, body string) string { return string([]byte{tag}) + vint(len(body)) + body }

func TestZZ(t *testing.T) {
	scheme := k8sruntime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	s := protobuf.NewSerializer(scheme, scheme)
	for kind, body := range map[string]string{
		"ConfigMapList": field(0x12, field(0x0a, strings.Repeat("\x6a\x00", 1_000_000))), // ownerReferences = 13
		"PodList":       field(0x12, field(0x12, strings.Repeat("\x12\x00", 1_000_000))), // spec=2 containers=2
	} {
		data := "k8s\x00" + field(0x0a, "\x0a\x02v1"+field(0x12, kind)) + field(0x12, body)
		runtime.GC()
		var a, b runtime.MemStats
		runtime.ReadMemStats(&a)
		obj, _, err := s.Decode([]byte(data), nil, nil)
		runtime.ReadMemStats(&b)
		t.Logf("%s: %d bytes wire, err %v, heap in use +%d MiB, total alloc +%d MiB", kind, len(data), err, (b.HeapInuse-a.HeapInuse)>>20, (b.TotalAlloc-a.TotalAlloc)>>20)
		m := &protobufMeter{maxItems: maxItems}
		t.Log(m.read([]byte(data)), m.items)
		runtime.KeepAlive(obj)
	}
}
