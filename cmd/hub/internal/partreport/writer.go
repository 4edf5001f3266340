// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// refresh is for unchanged reports.
	refresh = 5 * time.Minute
	// settle is how long the writer waits after a change for the next one.
	settle = time.Second
	// retry follows a failed write.
	retry        = 30 * time.Second
	writeTimeout = 10 * time.Second
)

// Options configure a Writer. All but Leaving and Check are required.
type Options struct {
	Client             client.Client
	Namespace, Replica string
	Parts              func() []state.HubPartStatus
	// Leaving is for a hub that shares the Clusters, where each replica writes a report of its own. It is closed when
	// this replica begins to leave; then the writer removes the report and ends. Default: nil.
	Leaving <-chan struct{}
	// Check returns an error while this hub may not write; the writer waits. Default: it may.
	Check func() error
	Log   logr.Logger
}

// Writer keeps the report up to date. It is a runnable of the hub's manager.
type Writer struct {
	options Options
	wake    <-chan struct{}
}

var _ manager.LeaderElectionRunnable = (*Writer)(nil)

// NewWriter returns a writer that writes when wake delivers, too.
func NewWriter(o Options, wake <-chan struct{}) *Writer { return &Writer{options: o, wake: wake} }

// NeedLeaderElection is true: the leader reports.
func (w *Writer) NeedLeaderElection() bool { return true }

// Start writes the report until ctx ends. It never fails: no work depends on the report.
func (w *Writer) Start(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil && !w.leaves() {
		if w.options.Check != nil && w.options.Check() != nil {
			w.wait(ctx, nil, settle)
			continue
		}
		pause := refresh
		if err := w.write(ctx); err != nil {
			pause = retry
			if !failing && ctx.Err() == nil {
				w.options.Log.Info("Failed to report the state of hub parts; the report is tried again",
					"configMap", Name, "error", err.Error())
			}
			failing = true
		} else {
			failing = false
		}
		if w.wait(ctx, w.wake, pause) {
			w.wait(ctx, nil, settle)
		}
	}
	if ctx.Err() == nil {
		if err := Forget(ctx, w.options.Client, w.options.Namespace, w.options.Replica); err != nil {
			w.options.Log.Info("Failed to remove the report of the state of hub parts; it is shown until it is old",
				"configMap", Name, "error", err.Error())
		}
	}
	return nil
}

// Forget removes the report of an ended replica that shared the Clusters. It blocks for one request.
func Forget(ctx context.Context, c client.Client, namespace, replica string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
	change, err := json.Marshal(map[string]any{"data": map[string]any{keyOf(replica): nil}})
	if err != nil {
		return err
	}
	if err := client.IgnoreNotFound(c.Patch(ctx, object, client.RawPatch(types.MergePatchType, change))); err != nil {
		return fmt.Errorf("remove the report of %s from the ConfigMap %s/%s: %w", replica, namespace, Name, err)
	}
	return nil
}

func (w *Writer) leaves() bool {
	select {
	case <-w.options.Leaving: // It blocks forever if it is nil.
		return true
	default:
		return false
	}
}

// wait reports whether wake delivered. It also returns when this replica leaves.
func (w *Writer) wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-w.options.Leaving:
	case <-ctx.Done():
	}
	return false
}

func (w *Writer) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	report := Report{Written: metav1.Now(), Replica: w.options.Replica, Parts: []Part{}}
	for _, one := range w.options.Parts() {
		report.Parts = append(report.Parts, Part{
			Module: one.Module, State: one.State, Reason: one.Reason, Message: clusterstatus.WithAdvice(one.Message, one.Problem), Since: metav1.NewTime(one.Since),
		})
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if w.options.Leaving != nil {
		return w.writeOwn(ctx, string(text))
	}
	return w.replace(ctx, w.object(dataKey, string(text)))
}

func (w *Writer) object(key, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.options.Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"},
		},
		Data: map[string]string{key: text},
	}
}

func (w *Writer) replace(ctx context.Context, object *corev1.ConfigMap) error {
	err := w.options.Client.Update(ctx, object.DeepCopy()) // without a version: whatever is there is replaced
	if apierrors.IsNotFound(err) {
		err = w.options.Client.Create(ctx, object)
	}
	return err
}

// writeOwn leaves reports of others, and removes that of a hub that had all Clusters.
func (w *Writer) writeOwn(ctx context.Context, text string) error {
	object := w.object(keyOf(w.options.Replica), text)
	change, err := json.Marshal(map[string]any{"data": map[string]any{keyOf(w.options.Replica): text, dataKey: nil}})
	if err != nil {
		return err
	}
	patch := func() error {
		return w.options.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, change))
	}
	err = patch()
	if apierrors.IsNotFound(err) {
		err = w.options.Client.Create(ctx, object.DeepCopy())
	}
	if apierrors.IsAlreadyExists(err) { // Another replica was faster.
		err = patch()
	}
	return err
}
