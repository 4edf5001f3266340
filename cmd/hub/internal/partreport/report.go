// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Name is the name of the ConfigMap, in the credentials namespace.
const Name = "clusterfx-modules"

// Report is the state of all hub parts in one replica.
type Report struct {
	Replica string
	Parts   []Part
}

// Part is the state of the hub part of one module.
type Part struct {
	Module  string      `json:"module"`
	State   string      `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Rules returns what the hub needs to write the report, beside creating ConfigMaps.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{Name}, Verbs: []string{"patch"}}}
}

// Read returns the reports in the order of the replicas; none if no hub has reported.
func Read(ctx context.Context, hub client.Reader, namespace string) (all []Report, err error) {
	var found corev1.ConfigMap
	if err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, replica := range slices.Sorted(maps.Keys(found.Data)) {
		all = append(all, Report{Replica: replica})
		if err := json.Unmarshal([]byte(found.Data[replica]), &all[len(all)-1].Parts); err != nil {
			return nil, fmt.Errorf("read %s in ConfigMap %s/%s: %w; remove the key, and restart that hub", replica, namespace, Name, err)
		}
	}
	return all, nil
}

// Of returns the state of the hub part of a module, or nil if the module has none.
func (r *Report) Of(module string) *Part {
	if i := slices.IndexFunc(r.Parts, func(p Part) bool { return p.Module == module }); i >= 0 {
		return &r.Parts[i]
	}
	return nil
}

// String returns the state and the reason.
func (p *Part) String() string {
	if p.State == state.ModuleRunning || p.Reason == "" || p.Reason == p.State {
		return p.State
	}
	return p.State + " (" + p.Reason + ")"
}

// Between two looks at the states, and after a failed write; and how long a request may take.
const period, retry, within = time.Second, 30 * time.Second, 5 * time.Second

// Writer is a runnable of the hub's manager that reports while the hub may write. All fields but Leaving are required.
type Writer struct {
	Client             client.Client
	Namespace, Replica string
	Parts              func() []state.HubPartStatus
	Leaving            <-chan struct{} // Leaving is closed when this replica begins to leave the others; then the writer ends.
	Check              func() error    // Check returns an error while this hub may not write.
	Log                logr.Logger
}

// Start reports until ctx ends, and then removes the report. It never fails: no work depends on the report.
func (w *Writer) Start(ctx context.Context) error {
	written, failed := "", time.Time{} // The latter is zero after a success.
	for {
		mayWrite := w.Check() == nil
		if !mayWrite {
			written = "" // It is removed when this hub becomes a standby.
		}
		if text := w.text(); mayWrite && text != written && time.Since(failed) >= retry {
			switch err := w.write(ctx, text); {
			case err == nil:
				written, failed = text, time.Time{}
			case failed.IsZero():
				w.Log.Info("Failed to report the state of hub parts; the report is tried again", "configMap", Name, "error", err.Error())
				fallthrough
			default:
				failed = time.Now()
			}
		}
		select {
		case <-time.After(period):
			continue
		case <-ctx.Done():
		case <-w.Leaving:
		}
		if isStandby := w.Check() != nil; isStandby {
			return nil //nolint:nilerr // It has no report.
		}
		if err := Forget(ctx, w.Client, w.Namespace, w.Replica); err != nil {
			w.Log.Info("Failed to remove the report of the state of hub parts", "configMap", Name, "error", err.Error())
		}
		return nil
	}
}

func (w *Writer) text() string {
	parts := []Part{}
	for _, p := range w.Parts() {
		parts = append(parts, Part{p.Module, p.State, p.Reason, clusterstatus.WithAdvice(p.Message, p.Problem), metav1.NewTime(p.Since)})
	}
	text, _ := json.MarshalIndent(parts, "", "  ") // It has strings and times only.
	return string(text)
}

func (w *Writer) write(ctx context.Context, text string) error {
	err := w.set(ctx, text)
	if apierrors.IsNotFound(err) {
		empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"}}}
		err = errors.Join(client.IgnoreAlreadyExists(w.Client.Create(ctx, empty)), w.set(ctx, text))
	}
	return err
}

// Forget removes the report of a replica that has ended or leaves, also when ctx has ended.
func Forget(ctx context.Context, c client.Client, namespace, replica string) error {
	return client.IgnoreNotFound((&Writer{Client: c, Namespace: namespace, Replica: replica}).set(context.WithoutCancel(ctx), nil))
}

// set patches without a version, so that replicas do not conflict.
func (w *Writer) set(ctx context.Context, text any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	change, _ := json.Marshal(map[string]any{"data": map[string]any{w.Replica: text}}) // It has strings only.
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: Name}}
	return w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, change))
}
