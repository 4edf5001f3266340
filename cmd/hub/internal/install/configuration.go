// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	nameField      = "name"
	// configHash is the annotation of Pods with the hash of the file: a hub reads the file when it starts, so another file
	// needs other Pods.
	configHash = "clusterfx.dev/config-hash"
	// MaxConfigBytes is the size that the file may have. A ConfigMap holds 1 MiB.
	MaxConfigBytes = corev1.MaxSecretSize - 4<<10
)

// configMap returns the ConfigMap with the configuration file, or nothing if there is no file.
func (o Options) configMap() ([]*unstructured.Unstructured, error) {
	if o.Config == "" {
		return nil, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: ConfigMapName, Labels: map[string]string{
			"app.kubernetes.io/name": "clusterfx", "app.kubernetes.io/component": "hub",
		}},
		Data: map[string]string{configKey: o.Config},
	})
	return []*unstructured.Unstructured{{Object: object}}, err
}

// mountConfig gives the Pods of a Deployment the configuration file and its hash. Options.arguments adds the argument.
func (o Options) mountConfig(deployment *unstructured.Unstructured, container map[string]any) error {
	if o.Config == "" {
		return nil
	}
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = append(mounts, map[string]any{nameField: configVolume, "mountPath": configFolder, "readOnly": true})
	volumes, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "volumes")
	if err != nil {
		return err
	}
	volumes = append(volumes, map[string]any{nameField: configVolume, "configMap": map[string]any{nameField: ConfigMapName}})
	if err := unstructured.SetNestedSlice(deployment.Object, volumes, "spec", "template", "spec", "volumes"); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(o.Config))
	return unstructured.SetNestedField(deployment.Object, hex.EncodeToString(hash[:]),
		"spec", "template", "metadata", "annotations", configHash)
}
