// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

func (d *demo) printTable(ctx context.Context) error {
	kube, err := clientset.NewForConfig(d.hub.Config())
	if err != nil {
		return fmt.Errorf("build a client for the hub: %w", err)
	}
	data, err := kube.RESTClient().Get().
		AbsPath("apis", hubv1.GroupVersion.String(), "clusters").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("get the table of Clusters: %w", err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		return fmt.Errorf("read the table of Clusters: %w", err)
	}
	d.progress.text("")
	var tables output.Tables
	return tables.Printer(d.out, false).Print(&table)
}
