// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const (
	// ConfigMapName is the name of the ConfigMap that holds the configuration file of the hub.
	ConfigMapName = "clusterfx-hub-config"
	// configKey is the key of the file in it, and with configFolder the path of the file in Pods.
	configKey    = "hub.yaml"
	configFolder = "/etc/clusterfx"
	// configArgument is the argument of a hub that reads the file.
	configArgument = "--config=" + configFolder + "/" + configKey
	configVolume   = "config"
	// configHash is the annotation of Pods with the hash of the file: a hub reads the file when it starts, so another file
	// needs other Pods.
	configHash = "clusterfx.dev/config-hash"
	// MaxConfigBytes is the size that the file may have. A ConfigMap holds 1 MiB.
	MaxConfigBytes = corev1.MaxSecretSize - 4<<10
)

// deploy puts the options into the Deployment of the hub.
func (o Options) deploy(d *appsv1.Deployment) {
	hub := hubOf(d)
	if o.Sharded {
		share(d, hub)
		if o.Shards != 0 && o.Shards != shards.DefaultCount {
			hub.Args = append(hub.Args, "--shards="+strconv.Itoa(o.Shards))
		}
	}
	if o.Replicas != 0 {
		d.Spec.Replicas = &o.Replicas
	}
	if o.Image != "" {
		hub.Image = o.Image
	}
	if o.Impersonate {
		hub.Args = append(hub.Args, "--impersonate-apps", "--apps-namespace="+o.AppsNamespace)
	}
	if o.Config != "" {
		hub.Args = append(hub.Args, configArgument)
		o.mountConfig(&d.Spec.Template, hub)
	}
}

// share makes the replicas share the Clusters, as the component config/sharding does.
func share(d *appsv1.Deployment, hub *corev1.Container) {
	replicas, grace, surge, unavailable := int32(3), int64(70), intstr.FromInt32(1), intstr.FromInt32(0)
	d.Spec.Replicas, d.Spec.MinReadySeconds = &replicas, 15
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	hub.Args = append(hub.Args, "--replicas-mode=Sharded", "--replica-name=$(POD_NAME)")
	hub.Env = append(hub.Env, corev1.EnvVar{
		Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	})
}

// mountConfig gives Pods the configuration file and its hash.
func (o Options) mountConfig(pod *corev1.PodTemplateSpec, hub *corev1.Container) {
	hub.VolumeMounts = append(hub.VolumeMounts, corev1.VolumeMount{Name: configVolume, MountPath: configFolder, ReadOnly: true})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: configVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName}},
	}})
	hash := sha256.Sum256([]byte(o.Config))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, configHash, hex.EncodeToString(hash[:]))
}

// configMap returns the ConfigMap with the configuration file.
func (o Options) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: ConfigMapName, Labels: map[string]string{
			"app.kubernetes.io/name": "clusterfx", "app.kubernetes.io/component": "hub",
		}},
		Data: map[string]string{configKey: o.Config},
	}
}
