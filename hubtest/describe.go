// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

func describe(scheme *runtime.Scheme, object client.Object) string {
	kind := fmt.Sprintf("%T", object)
	if gvk, err := apiutil.GVKForObject(object, scheme); err == nil {
		kind = gvk.Kind
	}
	return kind + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}

// maxDump is in bytes.
const maxDump = 8 << 10

func dump(object client.Object) string {
	shown, _ := object.DeepCopyObject().(client.Object)
	shown.SetManagedFields(nil)
	text, err := yaml.Marshal(shown)
	if err != nil {
		return err.Error()
	}
	if len(text) > maxDump {
		text = append(text[:maxDump:maxDump], "..."...)
	}
	return string(text)
}

const explainTimeout = 5 * time.Second

func (s *Server) explain(err error) string {
	text := strings.TrimSuffix(fmt.Sprint(err), "\n")
	ctx, cancel := context.WithTimeout(s.site.context(), explainTimeout)
	defer cancel()
	var clusters hubv1.ClusterList
	if err := s.site.hub.direct.List(ctx, &clusters); err != nil {
		return fmt.Sprintf("%s\nand the Clusters cannot be listed: %v", text, err)
	}
	for i := range clusters.Items {
		text += "\n" + conditionsOf(&clusters.Items[i])
	}
	if last := s.site.process.log.lastError(); last != "" {
		text += "\nthe last error of the hub: " + last
	}
	return text
}

func conditionsOf(c *hubv1.Cluster) string {
	text := fmt.Sprintf("Cluster %s: generation %d, observed %d", c.Name, c.Generation, c.Status.ObservedGeneration)
	for _, one := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s is %s, %s: %s", one.Type, one.Status, one.Reason, one.Message)
	}
	for _, one := range c.Status.Modules {
		text += fmt.Sprintf("\n  module %s: %s %s %s", one.Name, one.State, one.Reason, one.Message)
	}
	return text
}
