// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// kinds returns what a copy may be: kinds that can be listed and deleted, in the preferred version. It warns if a part
// of the API does not respond.
func (s *side) kinds(t *output.Terminal) ([]schema.GroupVersionKind, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.Config, s.HTTP)
	if err != nil {
		return nil, s.Explain(fmt.Errorf("build a client: %w", err))
	}
	served, err := client.ServerPreferredResources()
	switch {
	case err != nil && len(served) == 0:
		return nil, s.Explain(fmt.Errorf("read the kinds: %w", err))
	case err != nil:
		t.Warn("some kinds of %s are unknown, and their copies stay: %v", s.What, s.Explain(err))
	}
	var kinds []schema.GroupVersionKind
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group == hubv1.GroupName {
			continue
		}
		for _, one := range list.APIResources {
			kind := version.WithKind(one.Kind)
			if slices.Contains(one.Verbs, "list") && slices.Contains(one.Verbs, "delete") && one.Kind != "Event" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds, nil
}
