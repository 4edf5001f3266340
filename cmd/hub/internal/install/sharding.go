// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"path"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/config"
)

// sharding is the folder of the kustomize component for a hub whose replicas share the Clusters.
const sharding = "sharding"

// sharding returns the role of replicas that share the Clusters, and its binding.
func (o Options) sharding() ([]*unstructured.Unstructured, error) {
	if !o.Sharded {
		return nil, nil
	}
	objects, err := folder(sharding)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetNamespace("") // That of the files is the default one.
		if err := o.complete(object); err != nil {
			return nil, fmt.Errorf("complete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return objects, nil
}

// share applies the patches of the component to the Deployment of the hub.
func (o Options) share(deployment *unstructured.Unstructured) error {
	if !o.Sharded {
		return nil
	}
	text, err := config.Installation.ReadFile(path.Join(sharding, "kustomization.yaml"))
	if err != nil {
		return err
	}
	var component struct {
		Patches []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	if err := yaml.Unmarshal(text, &component); err != nil {
		return fmt.Errorf("read the component %s: %w", sharding, err)
	}
	for _, one := range component.Patches {
		if err := change(deployment, one.Patch); err != nil {
			return fmt.Errorf("apply the component %s: %w", sharding, err)
		}
	}
	return nil
}

// change applies a JSON patch, which is written as YAML.
func change(object *unstructured.Unstructured, text string) error {
	operations, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return err
	}
	before, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return err
	}
	return object.UnmarshalJSON(after)
}
