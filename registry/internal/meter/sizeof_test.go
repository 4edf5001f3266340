// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

func somePod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), Namespace: fmt.Sprintf("namespace-%d", i), UID: "6b2d2b3e-58ee-4b39-8a0b-4d1d5f0d2d0a",
			Labels:            map[string]string{"app": "some-application", "pod-template-hash": "5d4f8c7b9"},
			CreationTimestamp: metav1.Now(),
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/team/application:v1.2.3",
				Env: []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "ADDRESS", Value: "0.0.0.0:8080"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
				}},
			}},
			NodeName: fmt.Sprintf("node-%d", i),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}},
	}
}

func someConfigMap(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%d", i), Namespace: "default"},
		Data:       map[string]string{"text": strings.Repeat("x", 2000+i%10)},
	}
}

func someUnstructured(i int) *unstructured.Unstructured {
	content, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(somePod(i))
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// The estimate is compared with the growth of the heap. The test does not run in parallel with other tests, which would
// also grow the heap.
func TestWeigh(t *testing.T) { //nolint:paralleltest // see above
	const n = 2000
	for name, one := range map[string]func(i int) any{
		"pods":         func(i int) any { return somePod(i).DeepCopy() },
		"config maps":  func(i int) any { return someConfigMap(i).DeepCopy() },
		"unstructured": func(i int) any { return someUnstructured(i).DeepCopy() },
	} {
		t.Run(name, func(t *testing.T) {
			objs := make([]any, n)
			before := heap()
			for i := range objs {
				objs[i] = one(i)
			}
			real, estimate := heap()-before, Sizeof(objs...)
			t.Logf("%d bytes each, estimated at %d", real/n, estimate/n)
			if estimate < real/2 || estimate > real*3/2 {
				t.Errorf("estimated %d bytes at %d", real, estimate)
			}
			runtime.KeepAlive(objs)
		})
	}
	if got := Sizeof(nil, (*corev1.Pod)(nil)); got > 16 {
		t.Errorf("Sizeof of nil: got %d", got)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
