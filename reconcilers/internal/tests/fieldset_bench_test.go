// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
)

func configMap(t testing.TB) map[string]any {
	t.Helper()
	var data strings.Builder
	for i := range 16 {
		fmt.Fprintf(&data, "key-%d: %s\n  ", i, strings.Repeat("x", 56))
	}
	return object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: b\n  labels: {app: x}\ndata:\n  "+data.String())
}

func pod(t testing.TB) map[string]any {
	t.Helper()
	return object(t, `
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b, labels: {app: x, tier: y}}
spec:
  serviceAccountName: a
  containers:
  - name: app
    image: registry.example/app:1
    args: [--a, --b]
    env: [{name: A, value: a}, {name: B, value: b}, {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    ports: [{containerPort: 80, name: http}, {containerPort: 81, name: metrics}]
    resources: {limits: {memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}
    volumeMounts: [{name: data, mountPath: /data}, {name: config, mountPath: /config}]
  - name: log
    image: registry.example/log:1
  volumes: [{name: data, emptyDir: {}}, {name: config, configMap: {name: c}}]
`)
}

func BenchmarkContains(b *testing.B) {
	for name, desired := range map[string]map[string]any{"ConfigMap": configMap(b), "Pod": pod(b)} {
		actual := runtime.DeepCopyJSON(desired)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fieldset.Contains(actual, desired)
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for name, desired := range map[string]map[string]any{"ConfigMap": configMap(b), "Pod": pod(b)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fieldset.Hash(desired)
			}
		})
	}
}
