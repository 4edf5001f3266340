// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// Watch prints the Clusters, and then a row for each change, until ctx ends, which is no error. Names contains at
// most one name, of an existing Cluster.
func (c Clusters) Watch(ctx context.Context, form Form, w io.Writer) error {
	if len(c.Names) > 1 {
		return errors.New("--watch goes with one name, or with none and a selector")
	}
	show, accept, err := c.shower(form, w)
	if err != nil {
		return err
	}
	if err := c.exist(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	version := ""
	for begin := time.Now(); ctx.Err() == nil; begin = time.Now() {
		// Without a version the watch begins with all that there are.
		if version, err = c.watchFrom(ctx, version, accept, show); apierrors.IsResourceExpired(err) {
			version, err = "", nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		// The pause keeps a watch that always ends at once from becoming a busy loop.
		select {
		case <-ctx.Done():
		case <-time.After(watchPause - time.Since(begin)):
		}
	}
	return nil
}

// exist returns an error unless the Cluster with the name is there, which a watch would wait for without a word.
func (c Clusters) exist(ctx context.Context) error {
	if len(c.Names) == 0 {
		return nil
	}
	return c.each(ctx, jsonType, func([]byte) error { return nil })
}

// watchPause is the least time between two watches.
const watchPause = time.Second

// shower returns a function that prints the object of an event and returns its version, and the type of content that
// the function expects.
func (c Clusters) shower(form Form, w io.Writer) (func([]byte) (string, error), string, error) {
	if form.Format.Tabular() {
		printer := form.Tables.Printer(w, form.Format.String() == output.Wide)
		return func(data []byte) (string, error) { return c.showRows(data, printer) }, tableType, nil
	}
	printer, err := form.Format.Printer()
	return func(data []byte) (string, error) {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(data); err != nil {
			return "", fmt.Errorf("read a Cluster: %w", err)
		}
		if !c.Status.Matches(object) {
			return object.GetResourceVersion(), nil
		}
		return object.GetResourceVersion(), printer.PrintObj(object, w)
	}, jsonType, err
}

func (c Clusters) showRows(data []byte, printer *output.TablePrinter) (string, error) {
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		return "", fmt.Errorf("read the table of Clusters: %w", err)
	}
	version := ""
	for _, row := range table.Rows {
		var about metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &about); err != nil {
			return "", fmt.Errorf("read a row of the table of Clusters: %w", err)
		}
		version = about.ResourceVersion
	}
	rows, err := c.pick(table.Rows)
	if table.Rows = rows; err != nil || len(rows) == 0 {
		return version, err
	}
	return version, printer.Print(&table)
}

// watchFrom shows the events after a version, until the API server ends the watch or ctx ends. It returns
// the last version that it has seen.
func (c Clusters) watchFrom(ctx context.Context, version, accept string, show func([]byte) (string, error)) (string, error) {
	r := c.request(clustersPath, accept).Param("watch", "true").Param("allowWatchBookmarks", "false")
	if version != "" {
		r = r.Param("resourceVersion", version)
	}
	if len(c.Names) == 1 {
		r = r.Param("fieldSelector", "metadata.name="+c.Names[0])
	}
	stream, err := r.Stream(ctx)
	if err != nil {
		return version, c.Hub.Explain(err)
	}
	defer func() { _ = stream.Close() }()
	for events := json.NewDecoder(stream); ; {
		var event struct {
			Type   watch.EventType
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return version, nil // The caller starts the watch again at the last version.
		}
		if event.Type == watch.Error {
			var status metav1.Status
			_ = json.Unmarshal(event.Object, &status)
			return version, &apierrors.StatusError{ErrStatus: status}
		}
		seen, err := show(event.Object)
		if err != nil {
			return version, err
		}
		version = seen
	}
}
