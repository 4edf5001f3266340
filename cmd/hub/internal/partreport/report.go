// SPDX-License-Identifier: Apache-2.0

package partreport

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// Name is the name of the ConfigMap, in the credentials namespace.
	Name = "clusterfx-modules"
	// dataKey is for a hub with all Clusters. Of replicas, the name is between keyPrefix and keySuffix.
	dataKey              = "hub-parts.json"
	keyPrefix, keySuffix = "hub-parts.", ".json"
)

func keyOf(replica string) string { return keyPrefix + replica + keySuffix }

// Report is the state of all hub parts in one replica.
type Report struct {
	// Written is when the report was written, Replica by which hub.
	Written metav1.Time `json:"written"`
	Replica string      `json:"replica"`
	Parts   []Part      `json:"hubParts"`
}

// Part is the state of the hub part of one module.
type Part struct {
	Module  string      `json:"module"`
	State   string      `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Reports are the reports of the replicas of a hub, in the order of their names. A hub that does not share its Clusters has one.
type Reports []Report

// Rules returns what the hub needs to write the report, beside creating ConfigMaps.
func Rules() []rbacv1.PolicyRule { return rulesFor("update") }

// ReplicaRules returns what replicas that share the Clusters need beside Rules.
func ReplicaRules() []rbacv1.PolicyRule { return rulesFor("patch") }

func rulesFor(verb string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{Name}, Verbs: []string{verb}}}
}

// Read returns the reports; none if the hub has not reported. Old ones are returned only if all are.
func Read(ctx context.Context, hub client.Reader, namespace string) (Reports, error) {
	var found corev1.ConfigMap
	err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all Reports
	for _, key := range slices.Sorted(maps.Keys(found.Data)) {
		if !strings.HasPrefix(key, keyPrefix) || !strings.HasSuffix(key, keySuffix) {
			continue
		}
		var report Report
		if err := json.Unmarshal([]byte(found.Data[key]), &report); err != nil {
			return nil, fmt.Errorf("read %s in ConfigMap %s/%s: %w; delete the ConfigMap, and the hub writes it again", key, namespace, Name, err)
		}
		all = append(all, report)
	}
	if all.Old() {
		return all, nil
	}
	return slices.DeleteFunc(all, func(r Report) bool { return r.Old() }), nil
}

// Of returns the state of the hub part of a module, or nil if the module has none.
func (r *Report) Of(module string) *Part {
	for i := range r.Parts {
		if r.Parts[i].Module == module {
			return &r.Parts[i]
		}
	}
	return nil
}

// Old reports whether all reports are Old, which is true of none.
func (r Reports) Old() bool {
	return !slices.ContainsFunc(r, func(one Report) bool { return !one.Old() })
}

// Latest returns the report that was written last, or nil if there is none.
func (r Reports) Latest() *Report {
	var latest *Report
	for i := range r {
		if latest == nil || latest.Written.Before(&r[i].Written) {
			latest = &r[i]
		}
	}
	return latest
}

// Of returns the reports on a module's hub part. Replicas in which it stands by are left out, unless it does in all.
func (r Reports) Of(module string) Reports {
	var all, active Reports
	for _, report := range r {
		switch part := report.Of(module); {
		case part == nil:
		case part.State == state.ModuleStandby:
			all = append(all, report)
		default:
			all, active = append(all, report), append(active, report)
		}
	}
	if len(active) > 0 {
		return active
	}
	return all
}

// Summary returns the state of the hub part of a module in all replicas. It names the replicas if their states differ.
func (r Reports) Summary(module string) string {
	in, states := map[string][]string{}, []string(nil)
	for _, report := range r.Of(module) {
		state := report.Of(module).String()
		if in[state] == nil {
			states = append(states, state)
		}
		in[state] = append(in[state], report.Replica)
	}
	if len(states) == 1 {
		return states[0]
	}
	for i, state := range states {
		states[i] = state + " in " + strings.Join(in[state], " and ")
	}
	return strings.Join(states, ", ")
}

// Age returns how old the report is, for people.
func (r *Report) Age() string { return duration.HumanDuration(max(0, time.Since(r.Written.Time))) }

// Old reports whether the hub should have written it again.
func (r *Report) Old() bool { return time.Since(r.Written.Time) > 3*refresh }

// String returns the state and the reason.
func (p *Part) String() string {
	if p.State == state.ModuleRunning || p.Reason == "" || p.Reason == p.State {
		return p.State
	}
	return p.State + " (" + p.Reason + ")"
}

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
