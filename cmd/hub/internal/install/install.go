// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// Options are the differences between an installation and the manifests.
type Options struct {
	// Namespace is the hub's: it runs there, and it is the credentials namespace. Default: clusterfx-system.
	Namespace string
	// Image is the reference of the hub's image. Default: the image of the manifests.
	Image string
	// Replicas is the number of hubs. Default (0): the number in the manifests, which depends on Sharded.
	Replicas int32
	// Sharded makes the replicas share the Clusters, with the number of Shards. Default: one works and the others stand by; the
	// number of shards is that of the command run.
	Sharded bool
	Shards  int
	// Impersonate lets the apps act as ServiceAccounts of AppsNamespace, which is installed, too. Default: they act
	// as the hub. AppsNamespace defaults to the namespace of the hub, see AppsNamespace.
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
	objects, err := manifests()
	if err != nil {
		return nil, err
	}
	if o.Namespace == "" {
		o.Namespace = hubv1.DefaultNamespace
	}
	for _, object := range objects {
		if err := o.complete(object); err != nil {
			return nil, fmt.Errorf("complete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	ofModules, err := inNamespaces(o.Rules, roles.ModulesRole, rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Name: roles.HubRole, Namespace: o.Namespace,
	})
	if err != nil {
		return nil, fmt.Errorf("make the roles of modules: %w", err)
	}
	ofApps, err := o.impersonation()
	if err != nil {
		return nil, fmt.Errorf("make the roles of apps: %w", err)
	}
	ofReplicas, err := o.sharding()
	if err != nil {
		return nil, fmt.Errorf("make the role of replicas: %w", err)
	}
	configMap, err := o.configMap() // before the Deployment: its Pods mount it
	if err != nil {
		return nil, fmt.Errorf("make the ConfigMap: %w", err)
	}
	return namespaceFirst(slices.Concat(configMap, objects, ofModules, ofApps, ofReplicas)), nil
}

// complete puts the options into an object.
func (o Options) complete(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "Namespace":
		object.SetName(o.Namespace)
		return nil
	case "CustomResourceDefinition":
		return nil
	case "ClusterRole":
		return replaceRules(o.Rules, object)
	case "ClusterRoleBinding":
		return o.bind(object)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(o.Namespace)
	}
	switch object.GetKind() {
	case "Role":
		return replaceRules(o.Rules, object)
	case "RoleBinding":
		return o.bind(object)
	case "Deployment":
		return o.deploy(object)
	}
	return nil
}

// bind gives the ServiceAccounts of a binding their namespace.
func (o Options) bind(binding *unstructured.Unstructured) error {
	subjects, _, err := unstructured.NestedSlice(binding.Object, "subjects")
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if subject, ok := s.(map[string]any); ok && subject["kind"] == rbacv1.ServiceAccountKind {
			subject["namespace"] = o.Namespace
		}
	}
	return unstructured.SetNestedSlice(binding.Object, subjects, "subjects")
}

// deploy puts the image, the replicas and the flags into the Deployment of the hub.
func (o Options) deploy(deployment *unstructured.Unstructured) error {
	if err := o.share(deployment); err != nil {
		return err
	}
	if o.Replicas != 0 {
		if err := unstructured.SetNestedField(deployment.Object, int64(o.Replicas), "spec", "replicas"); err != nil {
			return err
		}
	}
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil {
		return err
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			continue
		}
		if o.Image != "" {
			container["image"] = o.Image
		}
		args, _, err := unstructured.NestedSlice(container, "args")
		if err != nil {
			return err
		}
		container["args"] = append(args, o.arguments()...)
		if err := o.mountConfig(deployment, container); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// arguments returns the hub's arguments that the options add to the manifests.
func (o Options) arguments() []any {
	var args []any
	if o.Sharded && o.Shards != 0 && o.Shards != shards.DefaultCount {
		args = append(args, "--shards="+strconv.Itoa(o.Shards))
	}
	if namespace := o.appsNamespace(); namespace != "" {
		args = append(args, "--impersonate-apps", "--apps-namespace="+namespace)
	}
	if o.Config != "" {
		args = append(args, configArgument)
	}
	return args
}
