// SPDX-License-Identifier: Apache-2.0

package oldcrd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remember is how long a refused field is left out before another try.
const remember = 10 * time.Minute

// Writer applies the status of one kind, from any goroutine. The zero value assumes a CRD with all fields.
type Writer struct {
	mu     sync.Mutex // protects the fields
	lacks  []string   // sorted paths
	forget time.Time
}

// Apply uses server-side apply. Without the fields that the CRD lacks it tries again, and returns their paths if they
// are new.
func (w *Writer) Apply(
	ctx context.Context, to client.SubResourceWriter, desired runtime.ApplyConfiguration, o ...client.SubResourceApplyOption,
) (dropped []string, err error) {
	for {
		known := w.known(time.Now())
		without, err := pruned(desired, known)
		if err != nil {
			return dropped, err
		}
		err = to.Apply(ctx, without, o...)
		fresh := slices.DeleteFunc(refused(err), func(path string) bool { return slices.Contains(known, path) })
		if len(fresh) == 0 {
			return dropped, err
		}
		w.note(fresh, time.Now())
		dropped = append(dropped, fresh...)
	}
}

// Known returns the status, a struct, without the fields that the CRD is known to lack.
func Known[T any](w *Writer, status T) (T, error) {
	lacks := w.known(time.Now())
	if len(lacks) == 0 {
		return status, nil
	}
	var left T
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return left, fmt.Errorf("convert the status: %w", err)
	}
	prune(map[string]any{"status": fields}, lacks)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &left); err != nil {
		return left, fmt.Errorf("convert the status: %w", err)
	}
	return left, nil
}

func (w *Writer) known(now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.forget) {
		w.lacks = nil
	}
	return slices.Clone(w.lacks)
}

func (w *Writer) note(paths []string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lacks) == 0 {
		w.forget = now.Add(remember)
	}
	w.lacks = slices.Compact(slices.Sorted(slices.Values(append(w.lacks, paths...))))
}

func pruned(desired runtime.ApplyConfiguration, lacks []string) (runtime.ApplyConfiguration, error) {
	if len(lacks) == 0 {
		return desired, nil
	}
	text, err := json.Marshal(desired)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("decode the status: %w", err)
	}
	prune(object.Object, lacks)
	return client.ApplyConfigurationFromUnstructured(object), nil
}
