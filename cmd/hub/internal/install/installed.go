// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Installed is the installation that a cluster has already. The zero Installed is none.
type Installed struct {
	// Image is the image of the hub, and Config its configuration file.
	Image, Config string
	// UnusedConfig is true if there is a ConfigMap ConfigMapName that the hub does not read, or no hub that could.
	UnusedConfig bool
	// args are the arguments of the hub.
	args []string
}

// Find returns the installation in a namespace.
func Find(ctx context.Context, c client.Reader, namespace string) (Installed, error) {
	var found Installed
	var d appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: DeploymentName}, &d); client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("look for a hub that is installed: %w", err)
	}
	if hub := hubOf(&d); hub != nil {
		found.Image, found.args = hub.Image, hub.Args
	}
	var file corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ConfigMapName}, &file); client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("look for the configuration of the hub: %w", err)
	}
	if readsConfig(&d) {
		found.Config = file.Data[configKey]
	} else {
		found.UnusedConfig = file.Name != ""
	}
	return found, nil
}

// readsConfig reports whether the hub of a Deployment reads the ConfigMap. The name of the ConfigMap alone does not make it
// the configuration: the hub itself may create ConfigMaps.
func readsConfig(d *appsv1.Deployment) bool {
	hub := hubOf(d)
	return hub != nil && slices.Contains(hub.Args, configArgument) &&
		slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == ConfigMapName
		})
}

// hubOf returns the container of the hub, or nil.
func hubOf(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "hub" }); i >= 0 {
		return &containers[i]
	}
	return nil
}

// Hub returns the image and the arguments of the hub in the objects of an installation.
func Hub(objects []*unstructured.Unstructured) (image string, args []string, err error) {
	object := deploymentIn(objects)
	if object == nil {
		return "", nil, nil
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
		return "", nil, fmt.Errorf("read the Deployment: %w", err)
	}
	if hub := hubOf(&d); hub != nil {
		return hub.Image, hub.Args, nil
	}
	return "", nil, nil
}

func deploymentIn(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == "Deployment" && object.GetName() == DeploymentName {
			return object
		}
	}
	return nil
}

// Lost returns the arguments of the installed hub that these objects remove, for example arguments that an operator has
// added to its Deployment by hand.
func (i Installed) Lost(objects []*unstructured.Unstructured) ([]string, error) {
	_, args, err := Hub(objects)
	return slices.DeleteFunc(slices.Clone(i.args), func(one string) bool { return slices.Contains(args, one) }), err
}
