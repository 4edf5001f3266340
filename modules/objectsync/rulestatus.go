// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

const (
	maxMessage = 1 << 10
	maxNamed   = 10 // Clusters in a message
)

// standing is how far a rule has come in all replicas.
type standing struct {
	rule     *hubv1.SyncRule
	replicas []hubv1.SyncReplica // that have not ended
	selected []*hubv1.Cluster    // that run the module
	invalid  error               // why the rule can work nowhere, or the operator does not allow it

	known, ready, unreachable, ended, copies, troubled int32
	unready                                            []string
	problems                                           []hubv1.SyncProblem
	late                                               bool // a replica speaks of another generation
}

func (s *standing) sum() {
	for _, one := range s.replicas {
		if one.ObservedGeneration != s.rule.Generation {
			s.late = true
		}
		s.known += ptr.Deref(one.Clusters, 0)
		s.ready += ptr.Deref(one.Ready, 0)
		s.unreachable += ptr.Deref(one.Unreachable, 0)
		s.ended += ptr.Deref(one.Ended, 0)
		s.copies += ptr.Deref(one.Copies, 0)
		s.troubled += ptr.Deref(one.ProblemCount, 0)
		s.unready = append(s.unready, one.Unready...)
		s.problems = append(s.problems, one.Problems...)
	}
	slices.Sort(s.unready)
	s.problems = someProblems(s.problems, maxProblemBytes)
}

// waiting is the number of selected Clusters that can be reached and have not followed, or not ended.
func (s *standing) waiting() int32 {
	var respond int32
	for _, c := range s.selected {
		if meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReachable) {
			respond++
		}
	}
	waiting := max(0, s.known-s.ready-s.ended-s.unreachable)
	if unknown := respond - s.known; unknown > waiting {
		return unknown
	}
	if s.late {
		return max(1, waiting)
	}
	return waiting
}

// status changes the status of the rule.
func (s *standing) status() {
	status, total := &s.rule.Status, int32(len(s.selected)) //nolint:gosec // They are objects in memory.
	status.ObservedGeneration = s.rule.Generation
	status.Summary = fmt.Sprintf("%d/%d", s.ready, total)
	status.Copies, status.ProblemCount, status.Problems = &s.copies, &s.troubled, s.problems
	s.set(s.valid())
	ready := s.isReady(total)
	s.set(ready)
	s.set(s.complete(total))
	held := s.held()
	s.only(hubv1.ConditionHeld, held.Reason != "", held)
	s.only(hubv1.ConditionStalled, s.invalid != nil, ready)
	s.only(hubv1.ConditionReconciling, s.invalid == nil && ready.Status != metav1.ConditionTrue, ready)
}

func (s *standing) set(c metav1.Condition) {
	c.ObservedGeneration = s.rule.Generation
	c.Message = strings.ToValidUTF8(c.Message[:min(len(c.Message), maxMessage)], "")
	meta.SetStatusCondition(&s.rule.Status.Conditions, c)
}

// only has a condition while it is True.
func (s *standing) only(kind string, isTrue bool, why metav1.Condition) {
	if isTrue {
		s.set(metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: why.Reason, Message: why.Message})
		return
	}
	meta.RemoveStatusCondition(&s.rule.Status.Conditions, kind)
}

func (s *standing) valid() metav1.Condition {
	c := metav1.Condition{Type: hubv1.ConditionValid, Status: metav1.ConditionTrue, Reason: hubv1.ReasonValid, Message: "The rule can work"}
	if s.invalid != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, hubv1.ReasonInvalid, s.invalid.Error()
	}
	if errors.Is(s.invalid, rules.ErrNotAllowed) {
		c.Reason = hubv1.ReasonNotAllowed
	}
	return c
}

func (s *standing) isReady(total int32) metav1.Condition {
	c := metav1.Condition{Type: hubv1.ConditionReady, Status: metav1.ConditionFalse}
	switch waiting := s.waiting(); {
	case !s.rule.DeletionTimestamp.IsZero():
		c.Reason, c.Message = hubv1.ReasonEnding, fmt.Sprintf("The rule is being deleted; %d of %d Clusters have ended it", s.ended, total)
	case s.invalid != nil:
		valid := s.valid()
		c.Reason, c.Message = valid.Reason, valid.Message
	case waiting > 0:
		c.Reason = hubv1.ReasonIncomplete
		c.Message = fmt.Sprintf("%d of %d Clusters have not followed generation %d%s%s", waiting, total, s.rule.Generation, s.named(), s.grant())
	case total == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, hubv1.ReasonNoClusters, "The rule selects no Cluster that runs the module "+Name
	default:
		c.Status, c.Reason = metav1.ConditionTrue, hubv1.ReasonFollowing
		c.Message = fmt.Sprintf("%d of %d Clusters have followed generation %d", s.ready, total, s.rule.Generation)
	}
	return c
}

func (s *standing) complete(total int32) metav1.Condition {
	c := metav1.Condition{Type: hubv1.ConditionComplete, Status: metav1.ConditionFalse, Reason: hubv1.ReasonIncomplete}
	switch {
	case s.ready >= total && !s.late && s.rule.DeletionTimestamp.IsZero() && s.invalid == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, hubv1.ReasonFollowing, "All selected Clusters have followed the rule"
		return c
	case s.waiting() == 0:
		c.Reason = hubv1.ReasonUnreachable
	}
	c.Message = fmt.Sprintf("%d of %d Clusters have not followed generation %d%s", max(0, total-s.ready), total, s.rule.Generation, s.named())
	return c
}

// grant is the line that grants what is missing.
func (s *standing) grant() string {
	i := slices.IndexFunc(s.problems, func(p hubv1.SyncProblem) bool { return p.Reason == hubv1.SyncPermissionMissing })
	if i < 0 {
		return ""
	}
	side, place := "remote", "--context "+s.problems[i].Cluster+" "
	if strings.HasPrefix(s.problems[i].Object, inHub) {
		side, place = "hub", ""
	}
	return fmt.Sprintf("; who may grant what is missing: kubectl get syncrule %s -o yaml | hub rbac --in %s --rules - | kubectl %sapply -f -",
		s.rule.Name, side, place)
}

func (s *standing) named() string {
	if len(s.unready) == 0 {
		return ""
	}
	text := ": " + strings.Join(s.unready[:min(len(s.unready), maxNamed)], ", ")
	if len(s.unready) > maxNamed {
		text += " and others"
	}
	return text
}

func (s *standing) held() metav1.Condition {
	var held []string
	for _, p := range s.problems {
		if p.Reason == hubv1.SyncHeld {
			held = append(held, p.Cluster+": "+p.Object)
		}
	}
	if len(held) == 0 {
		return metav1.Condition{}
	}
	return metav1.Condition{
		Reason: hubv1.ReasonHeld,
		Message: fmt.Sprintf("More copies would go than a rule may delete. If an edit gives them up, and that is meant: "+
			"kubectl annotate syncrule %s %s=%d --overwrite (hub deletes ls has the others). In at least %d Clusters: %s", s.rule.Name, hubv1.AnnotationAllowHeld,
			s.rule.Generation, len(held), strings.Join(held[:min(len(held), maxNamed)], "; ")),
	}
}
