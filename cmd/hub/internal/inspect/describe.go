// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

const maxEvents = 10

// Describe returns a Cluster as a tree: its identity, its conditions, the modules of its app
// with their controllers, and its last events.
func Describe(ctx context.Context, hub *access.Cluster, name string) (*output.Node, error) {
	var cluster hubv1.Cluster
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
		return nil, hub.Explain(err)
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
	text := "Unknown"
	if ready != nil {
		text = ready.Reason
	}
	root := &output.Node{Mark: markOf(ready), Text: fmt.Sprintf("Cluster %s: %s", name, text)}
	describeSpec(root, &cluster)
	describeConditions(root, cluster.Status.Conditions)
	describeModules(root, &cluster)
	describeRemains(root, cluster.Status.Remains)
	return root, describeEvents(ctx, root, hub, &cluster)
}

func describeSpec(root *output.Node, c *hubv1.Cluster) {
	status := &c.Status
	add := func(what, value string) {
		if value != "" {
			root.Add(output.Plain, "%-12s %s", what, value)
		}
	}
	if len(c.Labels) > 0 {
		add("Labels", labels.FormatLabels(c.Labels))
	}
	add("State", string(cmp.Or(c.Spec.State, hubv1.ClusterActive)))
	add("Server", status.Server)
	add("Version", status.Version)
	add("ID", status.ID)
	credentials := "Secret " + c.Spec.KubeconfigSecretRef.Name
	if status.Credentials.Type != "" {
		credentials += ", " + string(status.Credentials.Type)
	}
	if end := status.Credentials.ExpirationTime; !end.IsZero() {
		credentials += fmt.Sprintf(", expires at %s (%s)", end.UTC().Format(time.RFC3339), until(end.Time))
	}
	add("Credentials", credentials)
	if value, set := c.Annotations[hubv1.AnnotationObserve]; set && value != hubv1.AnnotationObserveOff {
		add("Observe", "every write to the remote is a dry run")
	}
	if nodes := status.Inventory.Nodes; nodes != nil {
		add("Nodes", fmt.Sprint(*nodes))
	}
	if !c.DeletionTimestamp.IsZero() {
		add("Deleted", "since "+age(c.DeletionTimestamp.Time))
	}
}

func until(t time.Time) string {
	if left := time.Until(t); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return age(t) + " ago"
}

func age(t time.Time) string { return duration.HumanDuration(time.Since(t)) }

// markOf returns the mark of a condition. Conditions that exist only while they are True report problems.
func markOf(c *metav1.Condition) output.Mark {
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return output.Unknown
	case c.Type == hubv1.ConditionStalled:
		return output.Failure
	case c.Type == hubv1.ConditionReconciling:
		return output.Step
	case c.Type == hubv1.ConditionDeletesHeld, c.Status == metav1.ConditionTrue && c.Reason == hubv1.ReasonExpiringSoon:
		return output.Warning
	case c.Status == metav1.ConditionTrue:
		return output.OK
	}
	return output.Failure
}

func describeConditions(root *output.Node, conditions []metav1.Condition) {
	node := root.Add(output.Plain, "Conditions")
	for _, c := range conditions {
		text := fmt.Sprintf("%-18s %s", c.Type, c.Reason)
		if c.LastTransitionTime.Unix() > 0 {
			text += " since " + age(c.LastTransitionTime.Time)
		}
		node.Add(markOf(&c), "%s: %s", text, c.Message)
	}
}

func describeModules(root *output.Node, c *hubv1.Cluster) {
	node := root.Add(output.Plain, "App: %s modules run", cmp.Or(c.Status.ModuleSummary, "no"))
	for _, m := range c.Status.Modules {
		describeControllers(node.Add(markOfState(m.State), "%-18s %s", m.Name, why(m.State, m.Reason, m.Message)), m.Controllers)
	}
}

func describeRemains(root *output.Node, all []hubv1.SyncRemains) {
	if len(all) == 0 {
		return
	}
	node := root.Add(output.Plain, "Remains of deleted SyncRules, until the remote returns")
	for _, one := range all {
		node.Add(output.Warning, "%-18s copies of %s from %s, deletionPolicy %s", one.Rule, one.Kind.Kind, one.From, one.Policy)
	}
}

// describeControllers adds the controllers of a module: one by one if any of them does not run, and all in one
// line otherwise.
func describeControllers(node *output.Node, all []hubv1.ControllerStatus) {
	var names []string
	for _, c := range all {
		if c.State == hubv1.ModuleRunning {
			names = append(names, c.Name)
		}
	}
	switch {
	case len(all) == 0:
		return
	case len(names) == len(all) && len(all) < hubv1.MaxControllers:
		node.Add(output.Plain, "Controllers: %s", strings.Join(names, ", "))
		return
	case len(names) == len(all):
		node.Add(output.Plain, "Controllers: %s, and maybe more", strings.Join(names, ", "))
		return
	}
	for _, c := range all {
		node.Add(markOfState(c.State), "controller %-18s %s", c.Name, why(c.State, c.Reason, c.Message))
	}
}

// why returns a state with its explanation. A reason that equals the state is left out.
func why(state hubv1.ModuleState, reason, message string) string {
	text := string(state)
	if reason != "" && reason != text {
		text += ": " + reason
	}
	if message != "" {
		text += ": " + message
	}
	return text
}

func markOfState(state hubv1.ModuleState) output.Mark {
	marks := map[hubv1.ModuleState]output.Mark{hubv1.ModuleRunning: output.OK, hubv1.ModuleFailed: output.Failure, hubv1.ModuleStarting: output.Step}
	return cmp.Or(marks[state], output.Unknown)
}

// describeEvents adds the last events, or a note if the user may not read them.
func describeEvents(ctx context.Context, root *output.Node, hub *access.Cluster, c *hubv1.Cluster) error {
	var list corev1.EventList
	err := hub.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{
		"involvedObject.kind": "Cluster", "involvedObject.name": c.Name, "involvedObject.uid": string(c.UID),
	})
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		root.Add(output.Warning, "Events: %v", hub.Explain(fmt.Errorf("list events in %s: %w", metav1.NamespaceDefault, err)))
		return nil
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	if left := len(list.Items) - maxEvents; left > 0 {
		list.Items = list.Items[left:]
	}
	node := root.Add(output.Plain, "Events")
	if len(list.Items) == 0 {
		node.Add(output.Plain, "none in the last hour")
	}
	for _, e := range list.Items {
		node.Add(output.Plain, "%-5s %-8s %-20s %s", age(lastSeen(e)), e.Type, e.Reason, e.Message)
	}
	return nil
}

// lastSeen returns when an event happened last. Which field says so depends on who recorded it.
func lastSeen(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
