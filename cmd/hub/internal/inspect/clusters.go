// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// Clusters says which Clusters to print.
type Clusters struct {
	// Hub is where they are.
	Hub *access.Cluster
	// Names are the names of the Clusters. Default: all.
	Names []string
	// Selector picks Clusters by their labels, as kubectl's -l does. Default: all.
	Selector string
	// Status picks Clusters by their conditions. Default: all.
	Status StatusSelector
}

// Form says how to print.
type Form struct {
	Format output.Format
	Tables output.Tables
}

// ErrNone means that a request without names has found no Clusters.
var ErrNone = errors.New("no Clusters found")

const (
	clustersPath = "/apis/" + hubv1.GroupName + "/v1alpha1/clusters"
	tableType    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	jsonType     = "application/json"
)

// Print writes the Clusters to w and returns the version from which a Watch continues. It returns ErrNone
// if there are none. Names that do not exist are errors, and the others are printed.
func (c Clusters) Print(ctx context.Context, form Form, w io.Writer) error {
	if form.Format.Tabular() {
		table, err := c.table(ctx)
		if len(table.Rows) > 0 {
			err = errors.Join(err, form.Tables.Printer(w, form.Format.String() == output.Wide).Print(table))
		} else if err == nil {
			err = ErrNone
		}
		return err
	}
	printer, err := form.Format.Printer()
	if err != nil {
		return err
	}
	objects, err := c.objects(ctx)
	if form.Format.String() == output.Name {
		for _, one := range objects {
			err = errors.Join(err, printer.PrintObj(one, w))
		}
		return err
	}
	if len(c.Names) == 1 {
		if len(objects) == 1 {
			err = errors.Join(err, printer.PrintObj(objects[0], w))
		}
		return err
	}
	return errors.Join(err, printer.PrintObj(listOf(objects), w))
}

// table returns the table that the API server makes.
func (c Clusters) table(ctx context.Context) (*metav1.Table, error) {
	all := &metav1.Table{}
	err := c.each(ctx, tableType, func(data []byte) error {
		var one metav1.Table
		if err := json.Unmarshal(data, &one); err != nil {
			return fmt.Errorf("read the table of Clusters: %w", err)
		}
		all.ColumnDefinitions, all.ListMeta = one.ColumnDefinitions, one.ListMeta
		rows, err := c.pick(one.Rows)
		all.Rows = append(all.Rows, rows...)
		return err
	})
	return all, err
}

// pick returns the rows that the status selector lets through, with objects that can be printed.
func (c Clusters) pick(rows []metav1.TableRow) ([]metav1.TableRow, error) {
	var picked []metav1.TableRow
	for _, row := range rows {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(row.Object.Raw, &object.Object); err != nil {
			return nil, fmt.Errorf("read a row of the table of Clusters: %w", err)
		}
		if c.Status.Matches(object) {
			row.Object.Object = object
			picked = append(picked, row)
		}
	}
	return picked, nil
}

// objects returns the Clusters as they are.
func (c Clusters) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := c.each(ctx, jsonType, func(data []byte) error {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(data); err != nil {
			return fmt.Errorf("read Clusters: %w", err)
		}
		add := func(one *unstructured.Unstructured) error {
			if c.Status.Matches(one) {
				all = append(all, one)
			}
			return nil
		}
		if !object.IsList() {
			return add(object)
		}
		list, err := object.ToList()
		if err != nil {
			return fmt.Errorf("read Clusters: %w", err)
		}
		for i := range list.Items {
			_ = add(&list.Items[i])
		}
		return nil
	})
	return all, err
}

// each requests the Clusters in a type of content, one by one if they have names, and passes each response body to take.
func (c Clusters) each(ctx context.Context, accept string, take func([]byte) error) error {
	paths := []string{clustersPath}
	if len(c.Names) > 0 {
		paths = nil
		for _, name := range c.Names {
			paths = append(paths, clustersPath+"/"+name)
		}
	}
	var errs []error
	for _, path := range paths {
		result := c.request(path, accept).Do(ctx)
		err := result.Error()
		if err == nil {
			data, _ := result.Raw()
			err = take(data)
		} else {
			err = c.Hub.Explain(err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Clusters) request(path, accept string) *rest.Request {
	r := c.Hub.REST.Get().AbsPath(path).SetHeader("Accept", accept)
	if c.Selector != "" {
		r = r.Param("labelSelector", c.Selector)
	}
	if accept == tableType && len(c.Status) > 0 {
		r = r.Param("includeObject", "Object")
	}
	return r
}

// listOf returns a List as kubectl prints it.
func listOf(objects []*unstructured.Unstructured) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, one := range objects {
		list.Items = append(list.Items, *one)
	}
	return list
}

// NamesOf returns the names of Clusters in arguments that are written as for kubectl: names, or
// cluster/NAME, after a word for the kind or without one.
func NamesOf(args []string) ([]string, error) {
	if len(args) > 1 && isKind(args[0]) {
		args = args[1:]
	}
	var names []string
	for _, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case !slash:
			names = append(names, arg)
		case isKind(kind) && name != "":
			names = append(names, name)
		default:
			return nil, fmt.Errorf("%q is not a Cluster: write NAME or cluster/NAME", arg)
		}
	}
	return names, nil
}

func isKind(word string) bool {
	switch strings.ToLower(word) {
	case "cluster", "clusters", "fxc", "cluster." + hubv1.GroupName, "clusters." + hubv1.GroupName:
		return true
	}
	return false
}
