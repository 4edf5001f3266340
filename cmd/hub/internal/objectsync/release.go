// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Release releases originals in the hub that are being deleted and wait for a copy in a remote that is away.
type Release struct {
	Fleet
	Terminal *output.Terminal
	// Rule is one from the hub, Cluster is away.
	Rule, Cluster string
	// Default: all that wait for the Cluster.
	Objects []string
	// Of originals of a rule that the configuration lacks.
	Kind      schema.GroupVersionKind
	Namespace string
	// Force releases although the remote responds.
	Force       bool
	Yes, DryRun bool

	rule  rules.Rule
	hub   *side
	found []metav1.PartialObjectMetadata
}

var (
	// ErrNotAway means that the hub reaches the remote, and releases the originals itself.
	ErrNotAway = errors.New("the hub reaches the remote, and releases the object when its copy has gone")
	// ErrNothing means that there are no objects to change.
	ErrNothing = errors.New("no objects found")
	// errNotHeld: the object does not wait for its copy.
	errNotHeld = errors.New("the object is not being deleted, or does not have the finalizer of the rule")
)

// Prepare finds the originals, and changes nothing.
func (r *Release) Prepare(ctx context.Context) (err error) {
	if r.hub, err = sideOf(r.Hub); err != nil {
		return err
	}
	if err := r.checkAway(ctx); err != nil {
		return err
	}
	if len(r.Objects) == 0 {
		r.found, err = r.find(ctx)
		return err
	}
	for _, text := range r.Objects {
		key, err := keyOf(r.rule, text, r.rule.SourceNamespaces(r.Cluster))
		if err != nil {
			return err
		}
		if !slices.Contains(r.rule.SourceNamespaces(r.Cluster), key.Namespace) {
			return fmt.Errorf("%s: the originals of rule %s for Cluster %s are in namespace %s", text, r.Rule, r.Cluster, r.rule.SourceNamespaces(r.Cluster)[0])
		}
		one, err := r.hub.get(ctx, r.rule.GVK(), key)
		if err != nil {
			return r.hub.explain(r.rule.GVK(), fmt.Errorf("read %s %s: %w", r.rule.GVK().Kind, key, err))
		}
		if !r.isHeld(one) {
			return fmt.Errorf("%s %s: %w", r.rule.GVK().Kind, key, errNotHeld)
		}
		r.found = append(r.found, *one)
	}
	return nil
}

// checkAway returns ErrNotAway if the remote responds.
func (r *Release) checkAway(ctx context.Context) error {
	var c hubv1.Cluster
	err := r.Hub.Get(ctx, client.ObjectKey{Name: r.Cluster}, &c)
	if client.IgnoreNotFound(err) != nil {
		return r.Hub.Explain(err)
	}
	r.rule, err = r.Config.Find(r.Rule, c.Labels)
	if r.Kind.Kind != "" {
		r.rule, err = rules.Rule{
			Name: r.Rule, From: rules.FromHub,
			Kind:       rules.Kind{APIVersion: r.Kind.GroupVersion().String(), Kind: r.Kind.Kind},
			Namespaces: rules.Namespaces{Names: []string{r.Namespace}},
		}, nil
	}
	switch {
	case err != nil:
		return err
	case r.rule.From != rules.FromHub || r.Kind.Kind == "" && !r.rule.IsOneToOne():
		return fmt.Errorf("rule %s has no objects in the hub that wait for a copy: only the originals of a rule from the hub with namespaces.template do", r.Rule)
	}
	reachable := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReachable)
	if !r.Force && reachable != nil && reachable.Status == metav1.ConditionTrue && r.runs(&c) {
		return fmt.Errorf("%s: %w; use --force to release it now", r.Cluster, ErrNotAway)
	}
	return nil
}

func (r *Release) find(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var held []metav1.PartialObjectMetadata
	for _, namespace := range r.rule.SourceNamespaces(r.Cluster) {
		all, err := r.hub.list(ctx, r.rule.GVK(), client.InNamespace(namespace))
		if err != nil {
			return nil, r.hub.explain(r.rule.GVK(), err)
		}
		held = append(held, slices.DeleteFunc(all, func(one metav1.PartialObjectMetadata) bool { return !r.isHeld(&one) })...)
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("originals of rule %s that are being deleted and wait for Cluster %s: %w", r.Rule, r.Cluster, ErrNothing)
	}
	return held, nil
}

func (r *Release) isHeld(one metav1.Object) bool {
	return one.GetDeletionTimestamp() != nil && len(r.held(one)) > 0
}

// held includes finalizers of a hub that this one was restored from.
func (r *Release) held(one metav1.Object) []string {
	return slices.DeleteFunc(slices.Clone(one.GetFinalizers()), func(finalizer string) bool {
		name, ok := rules.RuleOfFinalizer(finalizer)
		return !ok || name != r.Rule
	})
}

// Run prints the plan, asks for confirmation, and releases. It continues after a failure.
func (r *Release) Run(ctx context.Context) error {
	r.Terminal.Text("In %s, %s:", r.Hub.What, r.Hub.Config.Host)
	for _, one := range r.found {
		r.Terminal.Text("  remove the finalizer of %s %s; its copy in remote %s stays", r.rule.GVK().Kind, r.hub.name(&one), r.Cluster)
	}
	if r.DryRun {
		return nil
	}
	if !r.Yes {
		if err := r.Terminal.Ask(ctx, "Release the objects?"); err != nil {
			return err
		}
	}
	var all []error
	for i := range r.found {
		if err := r.release(ctx, &r.found[i]); err != nil {
			all = append(all, r.hub.explain(r.rule.GVK(), fmt.Errorf("release %s %s: %w", r.rule.GVK().Kind, r.hub.name(&r.found[i]), err)))
			continue
		}
		r.Terminal.Done("%s %s is released", r.rule.GVK().Kind, r.hub.name(&r.found[i]))
	}
	return errors.Join(all...)
}

// Count returns the number of originals that Prepare has found.
func (r *Release) Count() int { return len(r.found) }

// release records an event. It leaves an object that has changed.
func (r *Release) release(ctx context.Context, one *metav1.PartialObjectMetadata) error {
	for _, finalizer := range r.held(one) {
		if err := r.hub.release(ctx, r.rule.GVK(), one, finalizer); err != nil {
			return err
		}
	}
	if err := r.record(ctx, one); err != nil {
		r.Terminal.Warn("the event of %s is missing: %v", r.hub.name(one), r.Hub.Explain(err))
	}
	return nil
}

const fieldOwner = client.FieldOwner("clusterfx-cli")

func (r *Release) record(ctx context.Context, one *metav1.PartialObjectMetadata) error {
	namespace := one.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	apiVersion, kind := r.rule.GVK().ToAPIVersionAndKind()
	now := metav1.NewTime(time.Now())
	err := r.Hub.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "sync-release-"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: one.Namespace, Name: one.Name, UID: one.UID,
		},
		Type: corev1.EventTypeWarning, Reason: rules.ReasonCopyLeftBehind,
		Message: fmt.Sprintf("Released by an operator although its copy in the cluster %s may still exist.", r.Cluster),
		Source:  corev1.EventSource{Component: string(fieldOwner)}, Count: 1, FirstTimestamp: now, LastTimestamp: now,
	})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // The namespace is being deleted, too, and takes no Event.
	}
	return err
}

// release is nil for an object that has gone.
func (s *side) release(ctx context.Context, kind schema.GroupVersionKind, one *metav1.PartialObjectMetadata, finalizer string) error {
	without := slices.DeleteFunc(slices.Clone(one.Finalizers), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{metadata: map[string]any{
		"uid": one.UID, "resourceVersion": one.ResourceVersion, "finalizers": without,
	}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(kind)
	target.Namespace, target.Name = one.Namespace, one.Name
	if err := s.all.Patch(ctx, target, client.RawPatch(client.Merge.Type(), patch), fieldOwner); err != nil {
		return client.IgnoreNotFound(err)
	}
	one.Finalizers, one.ResourceVersion = without, target.ResourceVersion
	return nil
}
