// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// Reasons of Kubernetes events about a Cluster. Other events have the reasons of its conditions.
const (
	eventRegistered         = "Registered"
	eventCredentialsRotated = "CredentialsRotated"
	eventIdentityAccepted   = "IdentityAccepted"
	eventDeregistered       = "Deregistered"
	eventAbandoned          = "Abandoned"
	eventResumed            = "Resumed"
	eventModuleRunning      = "ModuleRunning"
)

func conditionPart(kind string) string { return "status.conditions{" + kind + "}" }
func modulePart(name string) string    { return "status.modules{" + name + "}" }

// transitions ignores mere details, and no event repeats the report before.
func transitions(before, after hubv1.ClusterStatus) []hubcontroller.Event {
	var all []hubcontroller.Event
	if isNew(before) && !isTrue(after, hubv1.ConditionReady) { // Otherwise the event Ready tells it.
		all = append(all, hubcontroller.Normal(eventRegistered, "", "Cluster registered"))
	}
	if rotated(before.Credentials, after.Credentials) {
		all = append(all, hubcontroller.Normal(eventCredentialsRotated, "", "New credentials in use"))
	}
	if before.ID != "" && before.ID != after.ID && isTrue(after, hubv1.ConditionIdentityConfirmed) {
		all = append(all, hubcontroller.Normal(eventIdentityAccepted, "", fmt.Sprintf(
			"Remote cluster is now %s instead of %s", after.ID, before.ID)))
	}
	was, is := readyOf(before), readyOf(after)
	if was.Reason == hubv1.ReasonPaused && is.Reason != hubv1.ReasonPaused {
		all = append(all, hubcontroller.Normal(eventResumed, "", "Cluster resumed"))
	}
	worse := worsened(before, after)
	all = append(all, worse...)
	if is.Status == metav1.ConditionTrue && was.Status != is.Status {
		return all // The event Ready sums up all recoveries.
	}
	return append(all, details(before, after, len(worse) > 0)...)
}

func worsened(before, after hubv1.ClusterStatus) []hubcontroller.Event {
	var all []hubcontroller.Event
	for _, c := range after.Conditions {
		if c.Type == hubv1.ConditionDeletesHeld && c.Reason == hubv1.ReasonLimitExceeded {
			all = append(all, newHolds(before, c)...)
		} else if kind := worthTelling(c); kind != "" && (!hadSame(before, c) || blamesAnother(before, c)) {
			all = append(all, hubcontroller.Event{Type: kind, Reason: c.Reason, Part: partOf(c), Note: c.Message})
		}
	}
	return all
}

// details are recoveries that no change to Ready sums up, now or in a moment. explained: another event reports a problem.
func details(before, after hubv1.ClusterStatus, explained bool) []hubcontroller.Event {
	var all []hubcontroller.Event
	stays := readyOf(after).Status == metav1.ConditionFalse // because of another condition
	for _, c := range after.Conditions {
		recovered := meta.IsStatusConditionFalse(before.Conditions, c.Type) && c.Status == metav1.ConditionTrue
		if recovered && (stays || c.Type == hubv1.ConditionAuthorized) {
			all = append(all, hubcontroller.Normal(c.Reason, partOf(c), c.Message))
		}
	}
	return append(all, ofModules(before, after, explained)...)
}

// ofModules is for single modules while others run: a failed one stops all, and the condition reports it.
func ofModules(before, after hubv1.ClusterStatus, explained bool) []hubcontroller.Event {
	var all []hubcontroller.Event
	if !isTrue(after, hubv1.ConditionReady) {
		return nil
	}
	for _, m := range after.Modules {
		was := stateOf(before, m.Name)
		switch {
		case was == m.State:
		case m.State == hubv1.ModuleWaiting && was == hubv1.ModuleRunning && !explained:
			all = append(all, hubcontroller.Warning(cmp.Or(m.Reason, string(m.State)), modulePart(m.Name), fmt.Sprintf("Module %s: %s", m.Name, m.Message)))
		case m.State == hubv1.ModuleRunning && (was == hubv1.ModuleFailed || was == hubv1.ModuleWaiting):
			all = append(all, hubcontroller.Normal(eventModuleRunning, modulePart(m.Name), fmt.Sprintf("Module %s running", m.Name)))
		}
	}
	return all
}

func newHolds(before hubv1.ClusterStatus, c metav1.Condition) []hubcontroller.Event {
	known := map[string]string{}
	if was := meta.FindStatusCondition(before.Conditions, c.Type); was != nil && was.Reason == c.Reason {
		known = holdsIn(was.Message)
	}
	now := holdsIn(c.Message)
	var all []hubcontroller.Event
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if _, ok := known[id]; !ok {
			all = append(all, hubcontroller.Warning(c.Reason, conditionPart(c.Type), now[id]))
		}
	}
	return all
}

// holdsIn returns leading sentences about holds by id. Texts of the remote come after them.
func holdsIn(message string) map[string]string {
	all := map[string]string{}
	for sentence := range strings.SplitSeq(message, "; ") {
		rest, ok := strings.CutPrefix(sentence, "hold ")
		id, _, found := strings.Cut(rest, ": ")
		if !ok || !found {
			break
		}
		all[id] = sentence
	}
	return all
}

func blamesAnother(before hubv1.ClusterStatus, c metav1.Condition) bool {
	was := meta.FindStatusCondition(before.Conditions, c.Type)
	return c.Type == hubv1.ConditionModulesReady && was != nil && culprit(was.Message) != culprit(c.Message)
}

func culprit(message string) string {
	if name, found := strings.CutPrefix(message, "module "); found {
		quoted, _ := strconv.QuotedPrefix(name)
		name, _ = strconv.Unquote(quoted)
		return name
	}
	return ""
}

func partOf(c metav1.Condition) string {
	if name := culprit(c.Message); c.Type == hubv1.ConditionModulesReady && name != "" {
		return modulePart(name)
	}
	return conditionPart(c.Type)
}

func stateOf(status hubv1.ClusterStatus, module string) hubv1.ModuleState {
	for _, m := range status.Modules {
		if m.Name == module {
			return m.State
		}
	}
	return ""
}

func readyOf(status hubv1.ClusterStatus) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// worthTelling returns a type, or "" for no event. Ready repeats the other conditions unless it is True.
func worthTelling(c metav1.Condition) string {
	switch {
	case c.Type == hubv1.ConditionReady && (c.Status == metav1.ConditionTrue || c.Reason == hubv1.ReasonPaused):
		return corev1.EventTypeNormal
	case c.Type == hubv1.ConditionReady, c.Type == hubv1.ConditionReconciling, c.Type == hubv1.ConditionStalled:
		return ""
	case c.Status == metav1.ConditionFalse, c.Reason == hubv1.ReasonExpiringSoon, c.Type == hubv1.ConditionDeletesHeld:
		return corev1.EventTypeWarning
	}
	return ""
}

func hadSame(status hubv1.ClusterStatus, c metav1.Condition) bool {
	before := meta.FindStatusCondition(status.Conditions, c.Type)
	return before != nil && before.Status == c.Status && before.Reason == c.Reason
}

func isTrue(status hubv1.ClusterStatus, kind string) bool {
	return meta.IsStatusConditionTrue(status.Conditions, kind)
}

func rotated(before, after hubv1.CredentialsStatus) bool {
	return before.Fingerprint != "" && after.Fingerprint != "" && before.Fingerprint != after.Fingerprint
}
