// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// benchConfigMap has 2 KB, which text fills.
func benchConfigMap(meta metav1.ObjectMeta, text string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": strings.Repeat(text+" ", configMapBytes)[:configMapBytes]}}
}

const configMapBytes = 2048

// benchPod is that of a Deployment with a sidecar, as it runs. text is in labels, arguments and environment.
func benchPod(meta metav1.ObjectMeta, text string) client.Object {
	meta.Labels = map[string]string{
		"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-" + text, "pod-template-hash": "7f9c6d5b8", "team": "payments",
	}
	meta.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "checksum/config": text}
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7f9c6d5b8", UID: "8a1f0e5c-8d0e-4b0e-9e2e-3c1b7d0c5a12", Controller: new(true),
	}}
	p := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName: "node-" + text, TerminationGracePeriodSeconds: new(int64(30)), ServiceAccountName: "web",
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
		},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}},
			}},
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	for _, name := range []string{"web", "proxy"} {
		p.Spec.Containers = append(p.Spec.Containers, benchContainer(name, text))
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Image: "registry.example.com/payments/" + name + ":v1.2.3", Ready: true, Started: new(true),
			ImageID:     "registry.example.com/payments/" + name + "@sha256:" + strings.Repeat("0123456789abcdef", 4),
			ContainerID: "containerd://" + strings.Repeat("0123456789abcdef", 4),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1_700_000_000, 0))}},
		})
	}
	p.Status.Phase, p.Status.PodIP, p.Status.HostIP, p.Status.QOSClass = corev1.PodRunning, "10.0.0.1", "192.168.0.1", corev1.PodQOSBurstable
	p.Status.PodIPs, p.Status.HostIPs = []corev1.PodIP{{IP: "10.0.0.1"}}, []corev1.HostIP{{IP: "192.168.0.1"}}
	for _, condition := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		})
	}
	return p
}

func benchContainer(name, text string) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example.com/payments/" + name + ":v1.2.3",
		Args:  []string{"--listen=:8080", "--verbose", "--cluster=" + text},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: "data", MountPath: "/data"}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")},
		}},
	}
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "value " + text})
	}
	return c
}
