// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// Prune deletes the copies that a removed rule has left, and the finalizers of its originals.
type Prune struct {
	Fleet
	Terminal *output.Terminal
	Rule     string
	// Clusters are searched in their remotes, and for their copies in the hub. A name without a Cluster is for one that
	// was deleted. Default: all.
	Clusters []string
	// Kinds of the objects. Default: of copies what the target can list and delete, of originals those of the copies.
	Kinds []schema.GroupVersionKind
	// Force also deletes copies of a rule that the configuration has. A hub that runs makes them again.
	Force       bool
	Yes, DryRun bool
}

// ErrConfigured means that a rule is not removed.
var ErrConfigured = errors.New("the configuration of the hub has this rule")

// errChanged: the object is no longer the copy that was found.
var errChanged = errors.New("it has changed since it was found, and is not deleted")

// Check returns ErrConfigured if the rule must not be pruned.
func (p *Prune) Check() error {
	if p.Config.Has(p.Rule) && !p.Force && !p.DryRun {
		return fmt.Errorf("rule %s: %w; remove it there first, or use --force", p.Rule, ErrConfigured)
	}
	return nil
}

// Run works cluster by cluster: it prints what it has found, asks for confirmation, deletes the copies and removes the
// finalizers of originals. It continues after an error. It returns the number of deleted copies, or with DryRun of
// those found.
func (p *Prune) Run(ctx context.Context) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	present, missing, err := p.named(ctx)
	if err != nil {
		return 0, err
	}
	hub, err := sideOf(p.Hub)
	if err != nil {
		return 0, err
	}
	tenants := []string{}
	for _, c := range present {
		tenants = append(tenants, rules.Rule{Name: p.Rule, From: rules.FromRemote}.Tenant(p.at(c.Name)))
	}
	for _, name := range missing {
		tenants = append(tenants, rules.Rule{Name: p.Rule, From: rules.FromRemote}.Tenant(p.at(name)))
	}
	inHub, err := p.find(ctx, hub, tenants)
	if err != nil {
		return 0, err
	}
	total, kinds, all := 0, p.Kinds, []error(nil)
	for i := range present {
		err := p.with(ctx, &present[i], func(remote *side) error {
			todo, err := p.inRemote(ctx, remote, p.at(present[i].Name), inHub)
			if err != nil {
				return err
			}
			kinds = kindsOf(kinds, todo)
			n, err := p.in(ctx, remote, todo)
			total += n
			return err
		})
		all = append(all, err)
		if ctx.Err() != nil {
			return total, errors.Join(all...)
		}
	}
	held, err := p.held(ctx, hub, kinds, func(finalizer string) bool {
		name, ok := rules.RuleOfFinalizer(finalizer) // also that of a hub which this one was restored from
		return ok && name == p.Rule
	})
	all = append(all, err)
	n, err := p.in(ctx, hub, append(inHub, held...))
	return total + n, errors.Join(append(all, err)...)
}

// inRemote finds copies, and originals of the kinds of the copies in the hub.
func (p *Prune) inRemote(ctx context.Context, remote *side, at rules.Place, inHub []leftover) ([]leftover, error) {
	copies, err := p.find(ctx, remote, []string{rules.Rule{Name: p.Rule, From: rules.FromHub}.Tenant(at)})
	if err != nil {
		return nil, err
	}
	finalizer := rules.Rule{Name: p.Rule, From: rules.FromRemote}.Finalizer(at)
	held, err := p.held(ctx, remote, kindsOf(p.Kinds, inHub), func(one string) bool { return one == finalizer })
	return append(copies, held...), err
}

func kindsOf(kinds []schema.GroupVersionKind, found []leftover) []schema.GroupVersionKind {
	kinds = slices.Clone(kinds)
	for i := range found {
		if !slices.Contains(kinds, found[i].kind) {
			kinds = append(kinds, found[i].kind)
		}
	}
	return kinds
}

// held takes a kind that is not served for one without objects.
func (p *Prune) held(ctx context.Context, s *side, kinds []schema.GroupVersionKind, isOurs func(finalizer string) bool) ([]leftover, error) {
	var held []leftover
	for _, kind := range kinds {
		all, err := s.list(ctx, kind)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err) && len(p.Kinds) == 0:
			p.Terminal.Warn("in %s the %s cannot be listed, and finalizers of the rule may stay", s.What, s.Token(kind.GroupKind().String()))
			continue
		case err != nil:
			return nil, s.explain(kind, err)
		}
		for i := range all {
			for _, finalizer := range all[i].Finalizers {
				if isOurs(finalizer) {
					held = append(held, leftover{PartialObjectMetadata: all[i], kind: kind, finalizer: finalizer})
				}
			}
		}
	}
	return held, nil
}

// named also returns the names without a Cluster.
func (p *Prune) named(ctx context.Context) (present []hubv1.Cluster, missing []string, err error) {
	if len(p.Clusters) == 0 {
		present, err = p.clusters(ctx, nil)
		return present, nil, err
	}
	for _, name := range p.Clusters {
		found, err := p.clusters(ctx, []string{name})
		switch {
		case apierrors.IsNotFound(err):
			p.Terminal.Warn("there is no Cluster %s: only the hub is searched for copies from it", name)
			missing = append(missing, name)
		case err != nil:
			return nil, nil, err
		default:
			present = append(present, found...)
		}
	}
	return present, missing, nil
}

// in works in one cluster, and returns the number of copies.
func (p *Prune) in(ctx context.Context, s *side, found []leftover) (int, error) {
	if len(found) == 0 {
		return 0, nil
	}
	held := 0
	for i := range found {
		if found[i].finalizer != "" {
			held++
		}
	}
	copies := len(found) - held
	s.printPlan(p, found)
	if p.DryRun {
		return copies, nil
	}
	if !p.Yes {
		question := fmt.Sprintf("Delete %d objects in %s?", copies, s.What)
		if held > 0 {
			question = fmt.Sprintf("Delete %d objects and remove %d finalizers in %s?", copies, held, s.What)
		}
		if err := p.Terminal.Ask(ctx, question); err != nil {
			return 0, err
		}
	}
	deleted := 0
	var all []error
	for i := range found {
		one := &found[i]
		if one.finalizer != "" {
			if err := s.release(ctx, one.kind, &one.PartialObjectMetadata, one.finalizer); err != nil {
				all = append(all, s.explain(one.kind, fmt.Errorf("remove the finalizer of %s: %w", s.leftoverName(one), err)))
			}
			continue
		}
		if err := s.remove(ctx, one); err != nil {
			all = append(all, s.explain(one.kind, fmt.Errorf("delete %s: %w", s.leftoverName(one), err)))
			continue
		}
		deleted++
	}
	p.Terminal.Done("%d objects are deleted in %s", deleted, s.What)
	return deleted, errors.Join(all...)
}

// leftover is a copy, or an original with a finalizer.
type leftover struct {
	metav1.PartialObjectMetadata

	kind      schema.GroupVersionKind
	finalizer string // of an original
}

// isMarked: it has the label, and its marks name itself and its kind.
func isMarked(obj metav1.Object, kind schema.GroupVersionKind, tenant string) bool {
	keys := (syncer.Identity{}).Keys()
	mark := obj.GetAnnotations()[keys.ObjectKind]
	isKind := strings.HasPrefix(mark, kind.Group+"/") && strings.HasSuffix(mark, ", Kind="+kind.Kind)
	return translate.IsCopy(obj) && isKind && obj.GetLabels()[keys.ManagedBy] == tenant
}

func (p *Prune) find(ctx context.Context, s *side, tenants []string) ([]leftover, error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	kinds := p.Kinds
	if len(kinds) == 0 {
		var err error
		if kinds, err = s.kinds(p.Terminal); err != nil {
			return nil, err
		}
	}
	found := search{label: (syncer.Identity{}).Keys().ManagedBy, strict: len(p.Kinds) > 0}
	for _, kind := range kinds {
		for _, tenant := range tenants {
			if err := found.add(ctx, s, kind, tenant); err != nil {
				return nil, s.explain(kind, err)
			}
		}
	}
	p.report(s, &found)
	return found.copies, nil
}

type search struct {
	label     string
	strict    bool // a kind that cannot be listed is an error
	copies    []leftover
	forbidden []string
	others    int
}

func (f *search) add(ctx context.Context, s *side, kind schema.GroupVersionKind, tenant string) error {
	found, err := s.list(ctx, kind, client.MatchingLabels{f.label: tenant})
	switch {
	case err == nil:
	case f.strict:
		return err
	case apierrors.IsForbidden(err):
		if name := kind.GroupKind().String(); !slices.Contains(f.forbidden, name) {
			f.forbidden = append(f.forbidden, s.Token(name))
		}
		return nil
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return nil
	default:
		return err
	}
	for _, one := range found {
		switch {
		case !isMarked(&one, kind, tenant):
			f.others++
		case one.DeletionTimestamp == nil:
			f.copies = append(f.copies, leftover{PartialObjectMetadata: one, kind: kind})
		}
	}
	return nil
}

func (p *Prune) report(s *side, f *search) {
	if len(f.forbidden) > 0 {
		p.Terminal.Warn("in %s these kinds cannot be listed, and their copies stay: %s; use an account with more permissions, or name the kinds with --kind",
			s.What, strings.Join(f.forbidden, ", "))
	}
	if f.others > 0 {
		p.Terminal.Warn("in %s %d objects have the label of the rule and the marks of other objects; they stay", s.What, f.others)
	}
}

// Without DryRun it prints only the first of many.
func (s *side) printPlan(p *Prune, found []leftover) {
	const most = 50
	p.Terminal.Text("In %s, %s:", s.What, s.Config.Host)
	for i := range found {
		if i == most && !p.DryRun {
			p.Terminal.Text("  and %d more; --dry-run prints all of them", len(found)-most)
			return
		}
		if found[i].finalizer != "" {
			p.Terminal.Text("  remove the finalizer of %s", s.leftoverName(&found[i]))
			continue
		}
		p.Terminal.Text("  delete %s", s.leftoverName(&found[i]))
	}
}

func (s *side) leftoverName(c *leftover) string {
	return s.Token(strings.ToLower(c.kind.GroupKind().String())) + " " + s.name(c)
}

// remove deletes only the copy that was found.
func (s *side) remove(ctx context.Context, c *leftover) error {
	now, err := s.get(ctx, c.kind, client.ObjectKeyFromObject(c))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	tenant := c.Labels[(syncer.Identity{}).Keys().ManagedBy]
	if now.UID != c.UID || !isMarked(now, c.kind, tenant) {
		return errChanged
	}
	err = s.all.Delete(ctx, now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		return errChanged
	}
	return client.IgnoreNotFound(err)
}

// kinds returns what a copy may be: kinds that can be listed and deleted, in the preferred version. It warns if a part
// of the API does not respond.
func (s *side) kinds(t *output.Terminal) ([]schema.GroupVersionKind, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.Config, s.HTTP)
	if err != nil {
		return nil, s.Explain(fmt.Errorf("build a client: %w", err))
	}
	served, err := client.ServerPreferredResources()
	switch {
	case err != nil && len(served) == 0:
		return nil, s.Explain(fmt.Errorf("read the kinds: %w", err))
	case err != nil:
		t.Warn("some kinds of %s are unknown, and their copies stay: %v", s.What, s.Explain(err))
	}
	var kinds []schema.GroupVersionKind
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group == hubv1.GroupName {
			continue
		}
		for _, one := range list.APIResources {
			kind := version.WithKind(one.Kind)
			if slices.Contains(one.Verbs, "list") && slices.Contains(one.Verbs, "delete") && one.Kind != "Event" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds, nil
}
