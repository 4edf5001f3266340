// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
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
	return writeTable(d.out, &table)
}

// writeTable has the columns and the spacing of kubectl without -o wide.
func writeTable(w io.Writer, t *metav1.Table) error {
	tabs := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	var header []string
	for _, c := range t.ColumnDefinitions {
		if c.Priority == 0 {
			header = append(header, strings.ToUpper(c.Name))
		}
	}
	_, _ = fmt.Fprintln(tabs, strings.Join(header, "\t")) // Flush returns the error.
	for _, row := range t.Rows {
		var cells []string
		for i, c := range t.ColumnDefinitions {
			if c.Priority == 0 {
				cells = append(cells, fmt.Sprint(row.Cells[i]))
			}
		}
		_, _ = fmt.Fprintln(tabs, strings.Join(cells, "\t"))
	}
	return tabs.Flush()
}
