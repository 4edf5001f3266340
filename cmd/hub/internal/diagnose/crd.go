// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/config"
)

// CRD describes the CustomResourceDefinition of Clusters in a hub's cluster.
type CRD struct {
	Served []string `json:"served"`
	// Fresh says that the schema is this program's.
	Fresh bool `json:"fresh"`
}

type crd struct {
	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
			Schema any    `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

const crdName = "clusters." + hubv1.GroupName

// ReadCRD reads the CRD of Clusters. The error matches apierrors.IsNotFound if there is none.
func ReadCRD(ctx context.Context, hub *access.Cluster) (CRD, error) {
	var state CRD
	result := hub.REST.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+crdName).
		SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		return state, fmt.Errorf("read the CRD %s: %w", crdName, err)
	}
	data, err := result.Raw()
	if err != nil {
		return state, fmt.Errorf("read the CRD %s: %w", crdName, err)
	}
	var theirs, ours crd
	if err := json.Unmarshal(data, &theirs); err != nil {
		return state, fmt.Errorf("read the CRD %s: %w", crdName, err)
	}
	file, err := config.CRDs.ReadFile("crd/" + hubv1.GroupName + "_clusters.yaml")
	if err != nil {
		return state, fmt.Errorf("%w: %w", errNoCRD, err)
	}
	if err := yaml.Unmarshal(file, &ours); err != nil {
		return state, fmt.Errorf("%w: %w", errNoCRD, err)
	}
	for _, v := range theirs.Spec.Versions {
		if v.Served {
			state.Served = append(state.Served, v.Name)
		}
	}
	state.Fresh = reflect.DeepEqual(theirs.Spec.Versions, ours.Spec.Versions)
	return state, nil
}
