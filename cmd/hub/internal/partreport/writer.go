// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// refresh is how often the report is written when nothing changes.
	refresh = 5 * time.Minute
	// settle is how long the writer waits after a change for the next one.
	settle = time.Second
	// retry is the pause after a write that failed, writeTimeout bounds one.
	retry        = 30 * time.Second
	writeTimeout = 10 * time.Second
)

// Options configure a Writer. All of them are required.
type Options struct {
	// Client writes to the hub's cluster.
	Client client.Client
	// Namespace is the credentials namespace, Replica the name of this hub.
	Namespace, Replica string
	// Parts returns the state of the hub parts.
	Parts func() []state.HubPartStatus
	// Log gets a line when the report cannot be written.
	Log logr.Logger
}

// Writer keeps the report up to date while this hub leads. It is a runnable of the hub's manager.
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
	for ctx.Err() == nil {
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
	return nil
}

// wait returns after a time, when wake delivers, or when ctx ends. It reports whether wake delivered.
func (w *Writer) wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
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
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.options.Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"},
		},
		Data: map[string]string{dataKey: string(text)},
	}
	err = w.options.Client.Update(ctx, object.DeepCopy()) // without a version: whatever is there is replaced
	if apierrors.IsNotFound(err) {
		err = w.options.Client.Create(ctx, object)
	}
	return err
}
