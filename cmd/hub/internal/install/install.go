// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/config"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Options are the differences between an installation and the manifests.
type Options struct {
	// Namespace is the hub's: it runs there, and it is the credentials namespace. Default: clusterfx-system.
	Namespace string
	// Image is the reference of the hub's image. Default: the image of the manifests.
	Image string
	// Replicas is the number of hubs. Default (0): the number in the manifests.
	Replicas int32
	// Args are more arguments of the command run. Default: none.
	Args []string
	// Impersonate lets the apps act as ServiceAccounts of AppsNamespace, which is installed, too. Default: they act
	// as the hub. AppsNamespace defaults to that of roles.AppsNamespace.
	Impersonate   bool
	AppsNamespace string
	// Config is the text of the hub's configuration file, which is installed in a ConfigMap. Default: the hub has no file.
	Config string
	// Rules are the permissions that the hub needs in its own cluster. Default: the rules of the stock hub.
	Rules *roles.Rules
}

// Objects returns the objects of an installation in an order in which they can be created. It reads nothing but the
// program itself; an error says that this was built from manifests that are wrong.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	o.Namespace = cmp.Or(o.Namespace, hubv1.DefaultNamespace)
	o.AppsNamespace = cmp.Or(o.AppsNamespace, roles.AppsNamespace(o.Namespace))
	objects, err := manifests()
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !o.has(object) })
	for _, object := range objects {
		if err := o.change(object); err != nil {
			return nil, fmt.Errorf("change %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	added, err := loose(o.added()...)
	if err != nil {
		return nil, fmt.Errorf("make the ConfigMap and the roles of modules: %w", err)
	}
	objects = append(added, objects...) // The Pods of the Deployment mount the ConfigMap.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(order(a), order(b)) })
	return objects, nil
}

// order is lower for what has to be created first: Namespaces.
func order(object *unstructured.Unstructured) int {
	if object.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

func manifests() ([]*unstructured.Unstructured, error) {
	crds, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, file := range crds {
		crd, err := config.CRDs.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, crd)
	}
	objects, err := access.Objects(bytes.Join(append(all, config.Installation), []byte("\n---\n")))
	if err != nil {
		return nil, fmt.Errorf("the manifests: %w", err)
	}
	return objects, nil
}

const appsNamespace = hubv1.DefaultNamespace + "-apps"

func (o Options) has(object *unstructured.Unstructured) bool {
	isOfApps := object.GetName() == roles.AppsRole || object.GetName() == appsNamespace || object.GetNamespace() == appsNamespace
	return o.Impersonate || !isOfApps
}

// place returns the namespace of this installation for one of the manifests.
func (o Options) place(namespace string) string {
	switch namespace {
	case hubv1.DefaultNamespace:
		return o.Namespace
	case appsNamespace:
		return o.AppsNamespace
	}
	return namespace
}

func (o Options) change(object *unstructured.Unstructured) error {
	if namespace := object.GetNamespace(); namespace != "" {
		object.SetNamespace(o.place(namespace))
	}
	switch object.GetKind() {
	case "Namespace":
		object.SetName(o.place(object.GetName()))
	case "Role", "ClusterRole":
		return edit(object, func(role *rbacv1.ClusterRole) { o.grant(object.GetKind(), role) })
	case "RoleBinding", "ClusterRoleBinding":
		return edit(object, func(binding *rbacv1.ClusterRoleBinding) {
			for i := range binding.Subjects {
				subject := &binding.Subjects[i]
				if subject.Namespace = o.place(subject.Namespace); subject.Kind == rbacv1.GroupKind {
					subject.Name = rbac.HubGroup(o.AppsNamespace)
				}
			}
		})
	case "Deployment":
		return edit(object, o.deploy)
	}
	return nil
}

// grant puts the rules into a role of the hub, and leaves the roles of people alone.
func (o Options) grant(kind string, role *rbacv1.ClusterRole) {
	if o.Rules == nil {
		return
	}
	switch kind + "/" + role.Name {
	case "ClusterRole/" + roles.HubRole:
		role.Rules = o.Rules.Everywhere
	case "Role/" + roles.HubRole:
		if !o.Impersonate || role.Namespace != o.AppsNamespace {
			role.Rules = o.Rules.Own
		}
	case "Role/" + eventsRole:
		role.Rules = o.Rules.Events
	case "ClusterRole/" + roles.AppsRole:
		role.Rules = o.Rules.Apps
	}
}

const eventsRole = "clusterfx-hub-events"

// edit changes an object of the manifests as a typed one.
func edit[T any](object *unstructured.Unstructured, change func(*T)) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return err
	}
	change(&typed)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
	if err != nil {
		return err
	}
	// Fields of Go types that are no pointers are there when they are empty.
	delete(fields, "status")
	if strategy, _, _ := unstructured.NestedMap(fields, "spec", "strategy"); len(strategy) == 0 {
		unstructured.RemoveNestedField(fields, "spec", "strategy")
	}
	object.Object = fields
	return nil
}

// added returns the objects that are not in the manifests: the ConfigMap with the configuration file, and the roles that modules need
// in single namespaces.
func (o Options) added() []client.Object {
	var all []client.Object
	if o.Config != "" {
		all = append(all, o.configMap())
	}
	if o.Rules == nil {
		return all
	}
	apps := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: rbac.HubGroup(o.AppsNamespace)}
	for _, needed := range o.Rules.Modules {
		all = append(all, roles.Bound(labelled(needed.Namespace, roles.ModulesRole), needed.Rules, roles.Account(o.Namespace, roles.HubRole))...)
		if o.Impersonate {
			all = append(all, roles.Bound(labelled(needed.Namespace, roles.AppsRole), needed.Rules, apps)...)
		}
	}
	return all
}

func labelled(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"}}
}

func loose(all ...client.Object) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(all))
	for _, typed := range all {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}
	return objects, nil
}

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

func (o Options) deploy(d *appsv1.Deployment) {
	hub := hubOf(d)
	hub.Args = append(hub.Args, o.Args...)
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

func (o Options) mountConfig(pod *corev1.PodTemplateSpec, hub *corev1.Container) {
	hub.VolumeMounts = append(hub.VolumeMounts, corev1.VolumeMount{Name: configVolume, MountPath: configFolder, ReadOnly: true})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: configVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName}},
	}})
	hash := sha256.Sum256([]byte(o.Config))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, configHash, hex.EncodeToString(hash[:]))
}

func (o Options) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: ConfigMapName, Labels: map[string]string{
			"app.kubernetes.io/name": "clusterfx", "app.kubernetes.io/component": "hub",
		}},
		Data: map[string]string{configKey: o.Config},
	}
}
